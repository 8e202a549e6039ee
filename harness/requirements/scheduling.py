"""The kinds of requirement that inform the scheduler: slow, timeout, exclusive, processors and memory."""

from __future__ import annotations

from dataclasses import dataclass

from harness.requirements.kinds import Requirement
from harness.requirements.machine import MachineFacts, RunFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow(Requirement):
    """The test is slow: it runs only where slow tests are asked for."""

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        return None if run_facts.slow else self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout(Requirement):
    """The test times out after this many seconds, in place of the run's default."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationCheck(Requirement):
    """What is wrong with the communication of the test's ranks is an error, a warning or not looked for."""

    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusive(Requirement):
    """No other test runs on the machine at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSlots(Requirement):
    """The test keeps this many processors busy, whatever its number of ranks."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Requirement):
    """All processes of the test together need this much memory; it skips on a machine with less."""

    mebibytes: int

    def unmet(self, facts: MachineFacts, run_facts: RunFacts) -> str | None:
        if facts.memory_mb is None or facts.memory_mb >= self.mebibytes:
            return None
        return f"{self.reason}, this machine has {facts.memory_mb} MiB"
