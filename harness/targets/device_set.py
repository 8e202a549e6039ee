"""``DeviceSet``: the accelerators of a target by name, and how a process is told to see only some of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.targets.target import Target

# torch for ROCm calls its device type cuda, and its runtime prefers this variable to CUDA's.
_HIP = "HIP_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class DeviceSet:
    """The accelerators that a run may use.

    ``names`` are what ``variable`` takes for each, as often as ranks have room on it; without a variable they
    are numbers, and no process can be told to see only some.
    """

    names: tuple[str, ...] = ()
    variable: str = ""

    @property
    def at_once(self) -> int:
        """How many the tests that run at once may share out: all, or one where no set can be handed out."""
        return len(self.names) if self.variable else min(1, len(self.names))

    def visible(self, held: Iterable[str]) -> dict[str, str]:
        """The variable for a process that is to see only the devices of these names."""
        return {self.variable: ",".join(dict.fromkeys(held))}


def of_target(target: Target, environ: Mapping[str, str]) -> DeviceSet | None:
    """The accelerators of a target that a process with this environment sees; None where it has none."""
    if target.device_type == "cpu":
        return None
    variable = _HIP if target.device_type == "cuda" and _is_rocm() else target.visible_variable
    before = next((environ[name] for name in (variable, target.visible_variable) if name in environ), "")
    return DeviceSet(names(before, target.device_count()) * target.ranks_per_device, variable)


def names(said: str, count: int) -> tuple[str, ...]:
    """The names of ``count`` devices: the first ones of what a variable says, or numbers if it says less."""
    named = [name.strip() for name in said.split(",") if name.strip()]
    return tuple(named[:count] if len(named) >= count else map(str, range(count)))


def _is_rocm() -> bool:
    import torch

    return torch.version.hip is not None
