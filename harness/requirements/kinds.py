"""The kinds of requirement that a test can have, each with the check whether a machine meets it.

A requirement is a frozen value. Its `unmet(facts, run_facts)` is pure and returns the reason for a skip, or
None where the test may run. A requirement of something that is not known (the world size before the launch, a
module that nobody has looked for) counts as met. The kinds that inform the scheduler are in `scheduling.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.requirements.machine import MachineFacts, RunFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """The base class of all kinds: the reason that a reader sees, and how its skip behaves."""

    reason: str
    """What the test needs, as the reader of a skip sees it."""
    passes_in_sandcastle: bool = False
    """Where the CI sets `SANDCASTLE=1`, the test passes without running in place of a skip."""

    needs_torch: ClassVar[bool] = False
    """The check asks torch for devices, backends or versions; others must not make a process import torch."""
    needs_world_size: ClassVar[bool] = False
    """The check depends on the world size, so it needs a test instance; a class alone is not enough."""
    needs_driver: ClassVar[bool] = False
    """The check asks the accelerator driver, so only the process that runs the test may make it."""
    skip_handled_by_test: ClassVar[bool] = False
    """The skip is handed to the test's `_handle_test_skip(message)` where it has one, as upstream does."""

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        """Why the test cannot run here, or None where it can. The base class's requirement is always met."""
        return None


def _with_others(here: int, run_facts: RunFacts) -> float:
    """The accelerators of all hosts of the run; without end in a rank whose parent has counted them."""
    elsewhere = run_facts.accelerators_elsewhere
    return here + elsewhere if elsewhere is not None else float("inf") if here else 0


def _described(facts: MachineFacts, run_facts: RunFacts) -> str:
    others = run_facts.accelerators_elsewhere
    return facts.describe_accelerators() + (f" and {others} on other hosts" if others else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(Requirement):
    """The test never runs: its decorator's condition for a skip was true at decoration."""

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        return self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerators(Requirement):
    """The test needs `count` devices of one type; with `allow_cpu` it also runs where there is no device."""

    count: int
    allow_cpu: bool = False
    device_type: str | None = None
    """The device type to count; None counts the type that the machine has most devices of."""

    needs_torch: ClassVar[bool] = True
    skip_handled_by_test: ClassVar[bool] = True

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        here = facts.devices(self.device_type) if self.device_type else facts.countable_devices()
        found = _with_others(here, run_facts)
        if found >= self.count or (self.allow_cpu and found == 0):
            return None
        return f"{self.reason}, found {_described(facts, run_facts)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorPerRank(Requirement):
    """The test needs one accelerator for each rank."""

    needs_torch: ClassVar[bool] = True
    needs_world_size: ClassVar[bool] = True

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        found = _with_others(facts.countable_devices(), run_facts)
        if found == 0:
            return f"{self.reason}, found no accelerator"
        if run_facts.world_size is None or found >= run_facts.world_size:
            return None
        return f"{self.reason}, found {_described(facts, run_facts)} for {run_facts.world_size} ranks"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSizeDemand(Requirement):
    """The test is launched with `size` ranks, each on its own accelerator where the machine has any."""

    size: int
    allow_cpu: bool = True

    needs_torch: ClassVar[bool] = True

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        found = _with_others(facts.countable_devices(), run_facts)
        if found >= self.size or (self.allow_cpu and found == 0):
            return None
        return f"{self.reason}, found {_described(facts, run_facts)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSizeMinimum(Requirement):
    """The test needs at least `size` ranks, unless the backend is an exempt one."""

    size: int
    exempt_backends: frozenset[str] = frozenset()

    needs_world_size: ClassVar[bool] = True

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        if run_facts.backend in self.exempt_backends or run_facts.world_size is None:
            return None
        return None if run_facts.world_size >= self.size else f"{self.reason}, got {run_facts.world_size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSizeEven(Requirement):
    """The test needs an even number of ranks, unless the backend is an exempt one."""

    exempt_backends: frozenset[str] = frozenset()

    needs_world_size: ClassVar[bool] = True

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        if run_facts.backend in self.exempt_backends or run_facts.world_size is None:
            return None
        return None if run_facts.world_size % 2 == 0 else f"{self.reason}, got {run_facts.world_size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts(Requirement):
    """The test's ranks need to be on at least `count` hosts."""

    count: int

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        if run_facts.hosts is None or run_facts.hosts >= self.count:
            return None
        return f"{self.reason}, found {run_facts.hosts}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends(Requirement):
    """The test needs a torch build with at least one of these process group backends."""

    any_of: tuple[str, ...]

    needs_torch: ClassVar[bool] = True

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        return None if facts.backends.intersection(self.any_of) else self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTypes(Requirement):
    """The test needs a device of at least one of these types; "cpu" is always there."""

    any_of: tuple[str, ...]

    needs_torch: ClassVar[bool] = True

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        if any(facts.devices(device_type) for device_type in self.any_of):
            return None
        return f"{self.reason}, found {facts.describe_accelerators()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclVersion(Requirement):
    """Where the machine has a CUDA device, the test needs this version of NCCL or a newer one."""

    version: tuple[int, ...]

    needs_torch: ClassVar[bool] = True

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        if not facts.devices("cuda"):
            return None
        if "nccl" not in facts.backends:
            return f"{self.reason}; this build has no NCCL backend"
        if facts.nccl_version is None or facts.nccl_version >= self.version:
            return None
        return f"{self.reason}; this build has NCCL {dotted(facts.nccl_version)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Multicast(Requirement):
    """The test needs CUDA devices that can multicast among themselves (NVSwitch)."""

    needs_torch: ClassVar[bool] = True
    needs_driver: ClassVar[bool] = True

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        absent = not facts.devices("cuda") or facts.multicast is False
        return self.reason if absent else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotOnRocm(Requirement):
    """The test does not run on a ROCm build, or does not run on some of its architectures."""

    archs: tuple[str, ...] = ()
    """The excluded architectures; an empty tuple excludes all of ROCm."""

    needs_torch: ClassVar[bool] = True

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        excluded = not self.archs or facts.rocm_arch in self.archs
        return self.reason if facts.rocm and excluded else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RocmVersion(Requirement):
    """On a ROCm build, the test needs this version or a newer one; with None it never runs on ROCm."""

    version: tuple[int, ...] | None

    needs_torch: ClassVar[bool] = True

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        if not facts.rocm or (self.version and facts.rocm_version and facts.rocm_version >= self.version):
            return None
        found = dotted(facts.rocm_version) if facts.rocm_version else "of unknown version"
        return f"{self.reason}, found ROCm {found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotOnPlatform(Requirement):
    """The test does not run on this operating system, named as in sys.platform."""

    platform: str

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        return self.reason if facts.platform == self.platform else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Importable(Requirement):
    """The test needs a module that the harness does not depend on, with these names in it."""

    module: str
    names: tuple[str, ...] = ()

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        return self.reason if facts.has_module(self.module) is False else None


def dotted(version: tuple[int, ...]) -> str:
    """The version as text: (2, 27, 3) becomes "2.27.3"."""
    return ".".join(map(str, version))
