"""`Requirements`: all requirements of one test, merged from its method and classes, and their verdict."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from harness.requirements.kinds import (
    AcceleratorPerRank,
    Accelerators,
    Hosts,
    Importable,
    Requirement,
    WorldSizeDemand,
)
from harness.requirements.machine import MachineFacts, RunFacts
from harness.requirements.scheduling import CommunicationCheck, CpuSlots, Exclusive, Memory, Slow, Timeout

Kind = TypeVar("Kind", bound=Requirement)


@dataclass(frozen=True, slots=True)
class Requirements:
    """All requirements of one test. The value is picklable and hashable, and is made without torch.

    `items` has every requirement in the order in which they are checked: those of the class before those of
    the method, those of an outer decorator before those of an inner one. The other fields sum them up.
    """

    items: tuple[Requirement, ...] = ()
    world_size: int | None = None
    """The number of ranks to launch the test with; None leaves it to the class."""
    hosts: int = 1
    """The least number of hosts that the ranks are on."""
    min_gpus: int = 0
    """The number of accelerators that the test occupies at any world size."""
    gpu_per_rank: bool = False
    """Whether the test occupies one accelerator for each rank."""
    slow: bool = False
    timeout_s: float | None = None
    communication_check: str | None = None
    """"off", "warn" or "error"; None leaves it to the run."""
    exclusive: bool = False
    cpu_slots: int | None = None
    """The number of processors that the test keeps busy; None derives it from the number of ranks."""
    memory_mb: int | None = None
    """The peak memory of all ranks together, in MiB; None where it is not known."""
    imports: tuple[str, ...] = ()
    """The modules that the harness does not depend on and the test imports."""
    needs_torch: bool = False
    """Whether checking one of the requirements asks torch."""

    def gpus(self, world_size: int) -> int:
        """The number of accelerators that the test occupies with `world_size` ranks, if there are any."""
        return max(self.min_gpus, world_size if self.gpu_per_rank else 0)


def merge(on_method: Iterable[Requirement], on_class: Iterable[Requirement] = ()) -> Requirements:
    """Merges the requirements of a method and of its class, both given with the outermost first.

    Of demands that exclude each other (world size, timeout, communication check), the outermost one of the
    method holds, else the outermost one of the class. Of amounts the largest holds. Conditions all hold.
    """
    return _merged(tuple(on_method), tuple(on_class))


@functools.lru_cache(maxsize=256)
def _merged(method: tuple[Requirement, ...], cls: tuple[Requirement, ...]) -> Requirements:
    nearest, items = method + cls, cls + method
    sizes, timeouts = _of(WorldSizeDemand, nearest), _of(Timeout, nearest)
    checks = _of(CommunicationCheck, nearest)
    return Requirements(
        items=items,
        world_size=sizes[0].size if sizes else None,
        hosts=max((item.count for item in _of(Hosts, items)), default=1),
        min_gpus=max((item.count for item in _of(Accelerators, items)), default=0),
        gpu_per_rank=bool(sizes) or bool(_of(AcceleratorPerRank, items)),
        slow=bool(_of(Slow, items)),
        timeout_s=timeouts[0].seconds if timeouts else None,
        communication_check=checks[0].level if checks else None,
        exclusive=bool(_of(Exclusive, items)),
        cpu_slots=max((item.count for item in _of(CpuSlots, items)), default=None),
        memory_mb=max((item.mebibytes for item in _of(Memory, items)), default=None),
        imports=tuple(dict.fromkeys(item.module for item in _of(Importable, items))),
        needs_torch=any(item.needs_torch for item in items),
    )


def unmet(requirements: Requirements, facts: MachineFacts, run_facts: RunFacts | None = None) -> str | None:
    """The reason why a test with these requirements skips, or None where it runs. Pure.

    Without an run_facts, conditions on the world size count as met, and slow tests are not asked for. In a
    sandcastle, requirements with `passes_in_sandcastle` count as met, because the decorator on the test makes
    it pass.
    """
    now = run_facts or RunFacts()
    for item in requirements.items:
        if item.passes_in_sandcastle and now.sandcastle:
            continue
        reason = item.unmet(facts, now)
        if reason is not None:
            return reason
    return None


def _of(kind: type[Kind], items: tuple[Requirement, ...]) -> tuple[Kind, ...]:
    return tuple(item for item in items if isinstance(item, kind))
