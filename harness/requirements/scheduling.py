"""What a test asks of the scheduler: time, solitude, processors, memory, or a place among the slow tests."""

from __future__ import annotations

from dataclasses import dataclass

from harness.requirements.kinds import Requirement
from harness.requirements.machine import MachineFacts, Occasion


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow(Requirement):
    """The test runs only where slow tests are asked for."""

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        return None if occasion.slow else self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout(Requirement):
    """The test is given up after that many seconds, in place of the default of the run."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusive(Requirement):
    """Nothing else may run on the machine beside the test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSlots(Requirement):
    """The test keeps that many processors busy, however many ranks it has."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Requirement):
    """All processes of the test together need that much memory; a machine that never has it cannot run it."""

    mebibytes: int

    def unmet(self, facts: MachineFacts, occasion: Occasion) -> str | None:
        if facts.memory_mb is None or facts.memory_mb >= self.mebibytes:
            return None
        return f"{self.reason}, this machine has {facts.memory_mb} MiB"
