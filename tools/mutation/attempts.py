"""What ``forks.py`` and ``warm_process.py`` say to each other: an attempt at tests, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutant to plant: its name, and the path of its file."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """Tests to run in one fork, in this order, with a mutant or without one.

    Each has ``timeout_s`` seconds. ``to_the_end``: a failure does not end the attempt.
    """

    mutant: Mutant | None
    tests: tuple[str, ...]
    timeout_s: float
    to_the_end: bool


@dataclass(frozen=True, slots=True)
class Began:
    """A test begins."""

    test: str


@dataclass(frozen=True, slots=True)
class Ran:
    """A test has run for so many seconds; ``words`` say how it failed, none that it did not."""

    test: str
    seconds: float
    words: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """All tests have run, or all up to a failure."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attempt: the tests that ran, the last of them perhaps cut off.

    ``why_not`` says why there was none: the mutant cannot be planted.
    """

    ran: tuple[Ran, ...]
    why_not: str = ""

    @property
    def failed(self) -> Ran | None:
        """The first test that failed."""
        return next((ran for ran in self.ran if ran.words), None)
