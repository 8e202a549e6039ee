"""``UnittestRun``: what unittest runs around a test: the tests that follow it, and the result they report to.

Nothing tells a test of its run, so it is read from the frames of the suites and the test that are on the
stack.
"""

from __future__ import annotations

import sys
import types
import unittest
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class UnittestRun:
    """The running test, and the suite and the result around it; None where they are not known."""

    case: unittest.TestCase | None = None
    suite: unittest.BaseTestSuite | None = None
    result: unittest.TestResult | None = None

    @property
    def left(self) -> tuple[unittest.TestCase, ...]:
        """The running test and those after it."""
        tests = tuple(_flat(self.suite)) if self.suite is not None else ()
        first = next((number for number, test in enumerate(tests) if test is self.case), None)
        if first is not None:
            return tests[first:]
        return (self.case,) if self.case is not None else ()

    @property
    def tests(self) -> tuple[str, ...]:
        """The ids of the running test and of those after it."""
        return tuple(test.id() for test in self.left)

    @property
    def modules(self) -> dict[str, Path]:
        """The files of the modules that these tests come from."""
        names = dict.fromkeys(type(test).__module__ for test in self.left)
        files = {name: getattr(sys.modules.get(name), "__file__", None) for name in names}
        return {name: Path(file).resolve() for name, file in files.items() if file}

    def stop(self) -> None:
        """Has unittest run no test after this one."""
        if self.result is not None:
            self.result.stop()


def around(case: unittest.TestCase, frame: types.FrameType | None) -> UnittestRun:
    """The run of a test whose frames are those of ``frame`` and its callers."""
    suite: unittest.BaseTestSuite | None = None
    result: unittest.TestResult | None = None
    while frame is not None:
        if frame.f_code.co_name == "run":
            owner, known = (frame.f_locals.get(name) for name in ("self", "result"))
            if result is None and isinstance(known, unittest.TestResult):
                result = known
            if (
                isinstance(owner, unittest.BaseTestSuite) and known is result
            ):  # not a run within another's test
                suite = owner
        frame = frame.f_back
    return UnittestRun(case, suite, result)


def _flat(suite: unittest.BaseTestSuite) -> Iterator[unittest.TestCase]:
    """The tests of a suite and of those in it; unittest has removed those that have run."""
    for item in suite:
        if isinstance(item, unittest.BaseTestSuite):
            yield from _flat(item)
        elif item is not None:
            yield item
