"""The kinds of requirement that a test can carry: one frozen value each, which can say whether it is met.

A requirement is data. Its `unmet(facts, occasion)` is pure and answers with the reason for a skip, or None
where the test may run. What is not known (no world size yet, a module nobody looked for) is met for now.
Demands on the scheduler, which skip next to nothing, stand in `scheduling.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.requirements.machine import MachineFacts, Occasion


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What every kind has: the reason a reader sees, and how its skip behaves."""

    reason: str
    """What the test needs and why, in words."""
    passes_in_sandcastle: bool = False
    """The test passes without running, where it would skip, in a CI that says `SANDCASTLE=1`."""

    needs_world_size: ClassVar[bool] = False
    """The answer hangs on the number of ranks, so a class alone cannot be judged, only a test instance."""
    needs_driver: ClassVar[bool] = False
    """The answer hangs on the accelerator driver, so only the process that runs the test may ask."""
    skip_handled_by_test: ClassVar[bool] = False
    """Upstream hands such a skip to the test's `_handle_test_skip(message)` where there is one."""

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        """Why the test cannot run here, or None. A kind that only informs the scheduler is always met."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(Requirement):
    """A condition that was false when the decorator ran: the test never runs here."""

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        return self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerators(Requirement):
    """At least `count` devices of one type; with `allow_cpu`, a machine without any will do as well."""

    count: int
    allow_cpu: bool = False
    device_type: str | None = None
    """The type to count; None takes any that can be counted."""

    skip_handled_by_test: ClassVar[bool] = True

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        found = facts.devices(self.device_type) if self.device_type else facts.countable_devices()
        if found >= self.count or (self.allow_cpu and found == 0):
            return None
        return f"{self.reason}, found {facts.describe_accelerators()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorPerRank(Requirement):
    """One device for each rank."""

    needs_world_size: ClassVar[bool] = True

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        found = facts.countable_devices()
        if found == 0:
            return f"{self.reason}, found no accelerator"
        if occasion.world_size is None or found >= occasion.world_size:
            return None
        return f"{self.reason}, found {facts.describe_accelerators()} for {occasion.world_size} ranks"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSizeDemand(Requirement):
    """The test wants to be launched with `size` ranks, each on its own device where there are devices."""

    size: int
    allow_cpu: bool = True

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        found = facts.countable_devices()
        if found >= self.size or (self.allow_cpu and found == 0):
            return None
        return f"{self.reason}, found {facts.describe_accelerators()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSizeMinimum(Requirement):
    """The test has nothing to show on fewer than `size` ranks, unless the backend is an exempt one."""

    size: int
    exempt_backends: frozenset[str] = frozenset()

    needs_world_size: ClassVar[bool] = True

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        if occasion.backend in self.exempt_backends or occasion.world_size is None:
            return None
        return None if occasion.world_size >= self.size else f"{self.reason}, got {occasion.world_size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSizeEven(Requirement):
    """The test pairs its ranks, so their number must be even, unless the backend is an exempt one."""

    exempt_backends: frozenset[str] = frozenset()

    needs_world_size: ClassVar[bool] = True

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        if occasion.backend in self.exempt_backends or occasion.world_size is None:
            return None
        return None if occasion.world_size % 2 == 0 else f"{self.reason}, got {occasion.world_size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends(Requirement):
    """One of these process group backends, at least, is in the build."""

    any_of: tuple[str, ...]

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        return None if facts.backends.intersection(self.any_of) else self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTypes(Requirement):
    """A device of one of these types, at least; "cpu" is always there."""

    any_of: tuple[str, ...]

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        if any(facts.devices(device_type) for device_type in self.any_of):
            return None
        return f"{self.reason}, found {facts.describe_accelerators()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclVersion(Requirement):
    """NCCL is that new; says nothing of a machine with no CUDA device."""

    version: tuple[int, ...]

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        if not facts.devices("cuda"):
            return None
        if "nccl" not in facts.backends:
            return f"{self.reason}; this build has no NCCL backend"
        if facts.nccl_version is None or facts.nccl_version >= self.version:
            return None
        return f"{self.reason}; this build has NCCL {dotted(facts.nccl_version)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Multicast(Requirement):
    """CUDA devices that can multicast among themselves (NVSwitch)."""

    needs_driver: ClassVar[bool] = True

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        absent = not facts.devices("cuda") or facts.multicast is False
        return self.reason if absent else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotOnRocm(Requirement):
    """The test does not work on a ROCm build, or only not on some of its architectures."""

    archs: tuple[str, ...] = ()
    """Empty: on none of them."""

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        excluded = not self.archs or facts.rocm_arch in self.archs
        return self.reason if facts.rocm and excluded else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RocmVersion(Requirement):
    """Where the build is a ROCm one, it is that new; with no version given none is new enough."""

    version: tuple[int, ...] | None

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        if not facts.rocm or (self.version and facts.rocm_version and facts.rocm_version >= self.version):
            return None
        found = dotted(facts.rocm_version) if facts.rocm_version else "of unknown version"
        return f"{self.reason}, found ROCm {found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotOnPlatform(Requirement):
    """The test does not work on that operating system, named as in sys.platform."""

    platform: str

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        return self.reason if facts.platform == self.platform else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Importable(Requirement):
    """A module that is no dependency of ours can be imported, with these names in it."""

    module: str
    names: tuple[str, ...] = ()

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        return self.reason if facts.has_module(self.module) is False else None


def dotted(version: tuple[int, ...]) -> str:
    """(2, 27, 3) as "2.27.3"."""
    return ".".join(map(str, version))
