"""Runs one upstream test file as ``python FILE`` does, and writes down each test's verdict and duration.

    python -m tools.bench.upstream_file WAY RESULTS FILE [unittest arguments]

``WAY`` is ``upstream`` or ``drop-in``. The file ``RESULTS`` gets one JSON object for each test.
"""

from __future__ import annotations

import json
import sys
import time
import unittest
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from harness import dropin
from harness.dropin import program

PASSED, SKIPPED, NOT_PASSED = "passed", "skipped", "not passed"
WAYS: dict[str, Callable[[], object]] = {"upstream": lambda: None, "drop-in": dropin.install}

ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


@dataclass(frozen=True, slots=True)
class TimedVerdict:
    """One test's verdict: its id without the module's name, and its seconds from setUp to tearDown."""

    test: str
    verdict: str
    seconds: float


def recording(path: str) -> type[unittest.TextTestResult]:
    """A result class that appends every test's ``TimedVerdict`` to a file as soon as it is known."""

    class Recording(unittest.TextTestResult):
        def startTest(self, test: unittest.TestCase) -> None:
            super().startTest(test)
            self.began, self.verdict = time.monotonic(), PASSED

        def stopTest(self, test: unittest.TestCase) -> None:
            name = test.id().partition(".")[2]
            note = TimedVerdict(name, self.verdict, time.monotonic() - self.began)
            with open(path, "a") as file:
                file.write(json.dumps(asdict(note)) + "\n")
            super().stopTest(test)

        def addSkip(self, test: unittest.TestCase, reason: str) -> None:
            super().addSkip(test, reason)
            self.verdict = SKIPPED

        def addError(self, test: unittest.TestCase, err: ExcInfo) -> None:
            super().addError(test, err)
            self.verdict = NOT_PASSED

        def addFailure(self, test: unittest.TestCase, err: ExcInfo) -> None:
            super().addFailure(test, err)
            self.verdict = NOT_PASSED

        def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
            super().addSubTest(test, subtest, err)
            if err is not None:
                self.verdict = NOT_PASSED

        def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
            super().addUnexpectedSuccess(test)
            self.verdict = NOT_PASSED

    return Recording


def read(lines: Iterable[str]) -> list[TimedVerdict]:
    """Reads the lines that the result class of ``recording`` wrote."""
    return [TimedVerdict(**json.loads(line)) for line in lines if line.strip()]


def main(arguments: list[str]) -> None:
    """Runs the tool and ends with SystemExit, as ``unittest.main`` does."""
    way, results, file, *rest = arguments
    unittest.TextTestRunner.resultclass = recording(results)
    program.run(file, rest, WAYS[way])


if __name__ == "__main__":
    main(sys.argv[1:])
