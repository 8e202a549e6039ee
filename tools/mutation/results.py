"""``Result``: what became of one mutant; kept a line each, so that an interrupted run goes on."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError

# The file of a run's results in its directory.
NAME = "mutants.jsonl"


class Verdict(enum.Enum):
    """What became of a mutant."""

    CAUGHT = "caught"
    SURVIVED = "survived"
    NOT_EXECUTED = "not executed"  # no test executes its line: as good as survived
    EQUIVALENT = "equivalent"  # nothing can notice it


@dataclass(frozen=True, slots=True)
class Result:
    """One mutant's result.

    ``tests`` are those that ran and passed, for a survivor; the one that failed first, for one that was
    caught. ``left_out`` is the number of tests that execute the line and did not run. ``words`` say how it
    was caught, or why it is equivalent.
    """

    mutant: str
    verdict: Verdict
    tests: tuple[str, ...] = ()
    words: str = ""
    left_out: int = 0

    def to_json(self) -> dict[str, Any]:
        """The result as JSON-able values; lossless with ``from_json``."""
        return {
            "mutant": self.mutant,
            "verdict": self.verdict.value,
            "tests": list(self.tests),
            "words": self.words,
            "left_out": self.left_out,
        }

    @property
    def file(self) -> str:
        """The mutated file, relative to the directory that has torch."""
        return self.mutant.partition(":")[0]


def from_json(value: Mapping[str, Any]) -> Result:
    """The result that ``to_json`` made a value of; KeyError or ValueError where it is none."""
    return Result(
        value["mutant"], Verdict(value["verdict"]), tuple(value["tests"]), value["words"], value["left_out"]
    )


def append(directory: Path, result: Result) -> None:
    """Adds a result to the directory's, in one write."""
    with open(directory / NAME, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(result.to_json()) + "\n")


def read(directory: Path) -> dict[str, Result]:
    """The results in a directory, by mutant; a last line that was cut off is left out.

    UsageError where another line is no result.
    """
    path = directory / NAME
    if not path.exists():
        return {}
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    found: dict[str, Result] = {}
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            result = from_json(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path}:{number} is no result of a mutant ({error}): remove the line") from None
        found[result.mutant] = result
    return found
