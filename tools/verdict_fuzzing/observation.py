"""``Observation``: what came of a case, as unittest's result or a line of ``results.jsonl`` has it."""

from __future__ import annotations

import dataclasses
import json
import re
import unittest
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# What unittest can say of a test, worst last; a test without a word passed.
VERDICTS = ("pass", "skip", "expected failure", "unexpected success", "fail", "error")
NO_VERDICT = "none"

_OF_STATUS = {
    "passed": "pass",
    "skipped": "skip",
    "failed": "fail",
    "expected failure": "expected failure",
    "unexpected success": "unexpected success",
}
_RANKS = r"ranks? (\d+(?:-\d+)?(?:, \d+(?:-\d+)?)*)\b"
_CAUSE = re.compile(rf"^(?:\S.*: )?(?:cause|at first): {_RANKS}(?! had to be ended|,| ->)", re.MULTILINE)
_SKIPPED = re.compile(rf"divergent skip: {_RANKS} skipped")


@dataclass(frozen=True, slots=True)
class Observation:
    """The verdict of a case's test and its text, those of the tests around it, and what was left over.

    ``before`` and ``after`` are the verdicts of the tests that pass by themselves; ``left`` are lines about
    processes, files, descriptors and threads. ``seconds`` is how long the test took, None where nobody knows.
    """

    verdict: str = NO_VERDICT
    text: str = ""
    before: str = NO_VERDICT
    after: str = NO_VERDICT
    warnings: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    seconds: float | None = None

    @property
    def causes(self) -> tuple[int, ...]:
        """The ranks that the text names as the cause; () where it names none."""
        found = _CAUSE.search(self.text)
        return _numbers(found[1]) if found else ()

    @property
    def skipped(self) -> tuple[int, ...]:
        """The ranks of which the text says that they alone skipped."""
        found = _SKIPPED.search(self.text)
        return _numbers(found[1]) if found else ()

    def dumps(self) -> str:
        """The observation as a line of JSON without its newline."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def loads(cls, line: str) -> Observation:
        """The observation of a line that ``dumps`` made."""
        value = json.loads(line)
        return cls(**{**value, "warnings": tuple(value["warnings"]), "left": tuple(value["left"])})


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of ``0, 2, 5-7``."""
    numbers: list[int] = []
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        numbers += range(int(low), int(high or low) + 1)
    return tuple(numbers)


def worst(verdicts: Iterable[str]) -> str:
    """The verdict of a test of which unittest said all these; "pass" for none."""
    return max(verdicts, key=VERDICTS.index, default="pass")


class Listener(unittest.TestResult):
    """A unittest result that keeps what it is told about one test."""

    def __init__(self) -> None:
        super().__init__()
        self.verdicts: list[str] = []
        self.texts: list[str] = []

    def addError(self, test: Any, err: Any) -> None:
        """Notes an error of the test, or of a fixture around it."""
        self._note("error", err)

    def addFailure(self, test: Any, err: Any) -> None:
        """Notes a failure."""
        self._note("fail", err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        """Notes a sub-test that went wrong."""
        if err is not None:
            self._note("fail" if issubclass(err[0], test.failureException) else "error", err)

    def addSkip(self, test: Any, reason: str) -> None:
        """Notes a skip of the whole test; one of a sub-test leaves the verdict as it is."""
        self.texts.append(reason)
        if not hasattr(test, "params"):
            self.verdicts.append("skip")

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        """Notes a failure that was expected."""
        self._note("expected failure", err)

    def addUnexpectedSuccess(self, test: Any) -> None:
        """Notes a pass that was not expected."""
        self.verdicts.append("unexpected success")

    def _note(self, verdict: str, err: Any) -> None:
        self.verdicts.append(verdict)
        self.texts.append(f"{err[0].__name__}: {err[1]}")


def verdict_of(test: unittest.TestCase) -> tuple[str, str]:
    """Runs a test; returns what unittest says of it, and its texts."""
    listener = Listener()
    test.run(listener)
    return worst(listener.verdicts), "\n".join(listener.texts)


def of_record(value: Mapping[str, Any]) -> tuple[str, str, float]:
    """The verdict, the text and the seconds of a line of ``results.jsonl``, by its documented fields."""
    parts = [value.get("details", ""), *(part.get("details", "") for part in value.get("subtests", ()))]
    text = "\n".join((value.get("reason", ""), *filter(None, parts), *value.get("warnings", ())))
    return _OF_STATUS.get(value["status"], "error"), text, float(value["duration_s"])
