"""The score of a sample of mutants: how many the tests caught, by module, and whether that is enough."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tools.mutation import modules
from tools.mutation.results import Result, Verdict

# Percent of the mutants on executed lines, and of all, that the tests are to catch, equivalent ones left out.
WANTED_EXECUTED, WANTED_ALL = 85, 75
# Standard deviations on each side of a share between which 95 % of samples have it.
DEVIATIONS = 1.96


@dataclass(frozen=True, slots=True)
class Score:
    """How many mutants of some files had each verdict."""

    caught: int = 0
    survived: int = 0
    not_executed: int = 0
    equivalent: int = 0

    def with_one(self, verdict: Verdict) -> Score:
        """This score and one more mutant."""
        return Score(
            self.caught + (verdict is Verdict.CAUGHT),
            self.survived + (verdict is Verdict.SURVIVED),
            self.not_executed + (verdict is Verdict.NOT_EXECUTED),
            self.equivalent + (verdict is Verdict.EQUIVALENT),
        )

    @property
    def executed(self) -> int:
        """The mutants that count and that some test executes."""
        return self.caught + self.survived

    @property
    def counted(self) -> int:
        """The mutants that count."""
        return self.executed + self.not_executed

    @property
    def enough(self) -> bool:
        """Whether as many are caught as are to be."""
        return (
            100 * self.caught >= WANTED_EXECUTED * self.executed
            and 100 * self.caught >= WANTED_ALL * self.counted
        )

    def __str__(self) -> str:
        executed, every = _percent(self.caught, self.executed), _percent(self.caught, self.counted)
        sure = f", 95 % sure: {interval(self.caught, self.executed)}" if self.executed else ""
        return (
            f"{self.caught} of {self.executed} on executed lines caught ({executed}{sure}), "
            f"{self.not_executed} on lines that no test executes ({every} of all), "
            f"{self.equivalent} equivalent"
        )


def total(results: Iterable[Result]) -> Score:
    """The score of all results."""
    score = Score()
    for result in results:
        score = score.with_one(result.verdict)
    return score


def by_file(results: Iterable[Result]) -> Mapping[str, Score]:
    """The score of each file, sorted by name."""
    scores: dict[str, Score] = {}
    for result in results:
        scores[result.file] = scores.get(result.file, Score()).with_one(result.verdict)
    return dict(sorted(scores.items()))


def by_group(results: Iterable[Result]) -> Mapping[str, Score]:
    """The score of each directory of mutated files, sorted by name."""
    scores: dict[str, Score] = {}
    for result in results:
        if (group := modules.group(result.file)) != result.file:
            scores[group] = scores.get(group, Score()).with_one(result.verdict)
    return dict(sorted(scores.items()))


def table(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """The scores as rows of text: the header, files, directories, and the sum of all last."""
    results = list(results)
    rows: list[tuple[str, ...]] = [
        ("file", "mutants", "executed", "caught", "of executed", "95 % sure", "of all")
    ]
    directories = ((f"{name}/", score) for name, score in by_group(results).items())
    scored = [*by_file(results).items(), *directories, ("all", total(results))]
    return rows + [
        (
            name,
            str(score.counted),
            str(score.executed),
            str(score.caught),
            _percent(score.caught, score.executed),
            interval(score.caught, score.executed),
            _percent(score.caught, score.counted),
        )
        for name, score in scored
    ]


def interval(part: int, whole: int) -> str:
    """Between what shares the true one is with 95 % confidence, by Wilson's score interval."""
    if not whole:
        return "-"
    share, doubt = part / whole, DEVIATIONS**2 / whole
    middle = (share + doubt / 2) / (1 + doubt)
    half = math.sqrt(share * (1 - share) * doubt + doubt**2 / 4) / (1 + doubt)
    return f"{100 * (middle - half):.0f}-{100 * (middle + half):.0f} %"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"
