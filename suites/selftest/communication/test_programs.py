"""Tests what is said of programs with a known communication bug, and that nothing is said of right ones.

One test for each program and rank mode. A program that has to be proven a deadlock has a deadline that its
test never comes to: there, the verdict would be another one.
"""

from __future__ import annotations

import os
import tempfile
import unittest
from collections.abc import Callable
from typing import ClassVar
from unittest import mock

from harness import RankLeakWarning
from harness.ranks.processes import pool
from suites.selftest.communication.program_cases import BEFORE
from suites.selftest.communication.program_verdicts import check_verdict, missing_words
from suites.selftest.communication.programs.program import FRESH, POOLED, THREADS, Kind, Program, Table
from suites.selftest.communication.programs.table import PROGRAMS
from suites.selftest.communication.started_programs import case_of
from suites.selftest.faults.rows import OnForkServer, Played

# Seconds. Programs that are to come to their deadline have one of their own.
DEADLINE = "90"
# Nor does any wait for these, after a rank that failed or skipped.
GRACES = {"HARNESS_GRACE": "600", "HARNESS_SKIP_GRACE": "600"}


def setUpModule() -> None:
    """Gives the compiler a directory for all tests, so that it is no leftover of the first that compiles."""
    caches = tempfile.TemporaryDirectory(prefix="harness-selftest-")
    unittest.addModuleCleanup(caches.cleanup)
    patch = mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=caches.name)
    patch.start()
    unittest.addModuleCleanup(patch.stop)


class ProgramRows(OnForkServer):
    """Base class of tests that run programs in one rank mode."""

    mode = FRESH
    before = 0  # collectives of the default group before each program
    environ: ClassVar[dict[str, str]] = {}

    def play_program(self, program: Program) -> Played:
        """Runs a program in the class's rank mode."""
        deadline = str(program.deadline_s) if program.kind is Kind.TIMED_OUT else DEADLINE
        case = case_of(program, self.mode)
        return self.play(case, f"test_{program.name}", HARNESS_TIMEOUT=deadline, **GRACES, **self.environ)

    def judge(self, program: Program) -> None:
        """Runs a program and compares the verdict with what is expected."""
        played = self.play_program(program)
        told = [str(each.message) for each in played.warnings if each.category is not RankLeakWarning]
        warned = [*played.outcome.warnings, *told]
        check_verdict(self, program, played.verdict, played.text, warned, self.before)


class FreshTest(ProgramRows):
    """Programs on ranks of their own."""


class StrictTest(ProgramRows):
    """Programs that are warned of, where what they do is an error."""

    environ: ClassVar[dict[str, str]] = {"HARNESS_COMM_CHECK": "error"}

    def judge(self, program: Program) -> None:
        """Expects an error with the words of the warning."""
        played = self.play_program(program)
        self.assertEqual(played.verdict, "ERROR", played.text)
        missing = [missing_words(program, line) for line in played.text.splitlines()]
        self.assertIn([], missing, played.text)


class PooledTest(ProgramRows):
    """Programs on ranks that have run another test before, in the group that they keep."""

    mode = POOLED
    before = BEFORE

    def judge(self, program: Program) -> None:
        """Runs another test on the ranks first."""
        self.addCleanup(pool.retire_pool)
        before = self.play(case_of(program, POOLED), "test_before")
        self.assertEqual(before.verdict, "pass", before.text)
        super().judge(program)


class ValuesTest(ProgramRows):
    """Right programs whose numbers are checked, and those that are warned of, which have no wrong ones."""

    environ: ClassVar[dict[str, str]] = {"HARNESS_COMM_CHECK": "values"}

    def judge(self, program: Program) -> None:
        """Expects that no number is called wrong, and that none is only nearly the same on all ranks."""
        played = self.play_program(program)
        said = [*played.texts, *(str(each.message) for each in played.warnings)]
        self.assertEqual(played.verdict, "pass", played.text)
        self.assertEqual([line for line in said if " got " in line], [])


class ThreadsTest(ProgramRows):
    """Programs on threads."""

    mode = THREADS


def _test_of(program: Program) -> Callable[[ProgramRows], None]:
    def test(self: ProgramRows) -> None:
        self.judge(program)

    test.__name__ = f"test_{program.name}"
    test.__doc__ = program.body.__doc__
    return test


for _case in (FreshTest, PooledTest, ThreadsTest):
    for _program in PROGRAMS.values():
        if _case.mode in _program.modes:
            setattr(_case, f"test_{_program.name}", _test_of(_program))
for _program in PROGRAMS.values():
    if _program.kind in (Kind.WARNING, Kind.PASSED) and FRESH in _program.modes:
        setattr(ValuesTest, f"test_{_program.name}", _test_of(_program))
    if _program.kind is Kind.WARNING:
        setattr(StrictTest, f"test_{_program.name}", _test_of(_program))


class ExpectationTest(unittest.TestCase):
    """The expectations themselves."""

    def test_places(self) -> None:
        """Every place that words name is marked, and every bug has words or a guilty rank."""
        for program in PROGRAMS.values():
            with self.subTest(program.name):
                self.assertEqual(len(program.expected()), len(program.words))
                self.assertEqual(program.kind is Kind.PASSED, not program.words and not program.guilty)

    def test_missing_words(self) -> None:
        """One of several alternatives is enough, and places are those of the marks."""
        table = Table()

        @table.bug(2, Kind.DEADLOCKED, "rank 1", "left | gone", "{waits}")
        def body(rank: int, world_size: int) -> None:
            print()  # waits

        (program,) = table.programs
        place = program.places()["waits"]
        self.assertEqual(missing_words(program, f"rank 1 is gone ({place})"), [])
        self.assertEqual(missing_words(program, "rank 1 left"), [(place,)])
        self.assertEqual(missing_words(program, place), [("rank 1",), ("left", "gone")])

    def test_numbers(self) -> None:
        """Where a group has had collectives before, the numbers of a program's go on from there."""
        program = PROGRAMS["first_rank_has_fewer_iterations"]
        self.assertIn(("ranks 1-3 wait in all_reduce #6",), program.expected())
        self.assertIn(("ranks 1-3 wait in all_reduce #9",), program.expected(before=3))


if __name__ == "__main__":
    unittest.main()
