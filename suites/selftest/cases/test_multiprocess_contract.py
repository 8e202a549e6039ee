"""Tests upstream's visible contract, and the errors of cases that break it."""

from __future__ import annotations

import os
import types
import unittest

from harness import LaunchError, Status
from suites.selftest.faults import contract
from suites.selftest.faults.rows import OnForkedInterpreters, OnForkServer, Rows


class CodeRows(Rows):
    """Tests that use ``special_return_code_checks`` and ``skip_return_code_checks``."""

    def test_announced(self) -> None:
        """A crash with the announced code is a pass."""
        played = self.play(contract.Codes, "test_announced")
        self.assertEqual(played.verdict, "pass", played.text)

    def test_announced_for_rank_0(self) -> None:
        """If rank 0 ends with the announced code, the others may end with 0."""
        played = self.play(contract.Codes, "test_announced_for_rank_0")
        self.assertEqual(played.verdict, "pass", played.text)

    def test_announced_and_not_kept(self) -> None:
        """An announced code that does not come is an error that names both codes."""
        played = self.play(contract.Codes, "test_announced_and_not_kept")
        self.check(played, "ERROR", Status.ERROR, "exit code 3", "exit code 0", root=0)

    def test_any_end(self) -> None:
        """If the codes are to be ignored, no end of a rank is wrong."""
        played = self.play(contract.Codes, "test_any_end")
        self.assertEqual(played.verdict, "pass", played.text)

    def test_any_end_but_a_failure(self) -> None:
        """A reported failure counts even if the codes are to be ignored."""
        played = self.play(contract.Codes, "test_any_end_but_a_failure")
        self.check(played, "FAIL", Status.FAILED, "a failure all the same")


class WorldSizeRows(Rows):
    """The forms of ``world_size``."""

    def test_default(self) -> None:
        """The default is four, for a class that says nothing and has no setUp."""
        played = self.play(contract.WithoutSetUp, "test_world_size")
        self.assertEqual(played.verdict, "pass", played.text)
        self.assertEqual(len(played.outcome.ranks), 4)

    def test_property(self) -> None:
        """A property works, as upstream's tests write it, and each rank has its number."""
        played = self.play(contract.WithProperty, "test_world_size")
        self.assertEqual(played.verdict, "FAIL", played.text)
        for rank in range(3):
            error = played.rank(rank).error
            assert error is not None
            self.assertEqual(error.message.splitlines()[0], f"rank {rank}")

    def test_zero(self) -> None:
        """A world size of 0 is a ValueError."""
        played = self.play(contract.WithZero, "test_anything")
        self.assertEqual(played.verdict, "ERROR")
        self.assertIn("ValueError: world_size is 0", played.text)

    def test_words(self) -> None:
        """A world size that is not a number is a ValueError."""
        played = self.play(contract.WithWords, "test_anything")
        self.assertEqual(played.verdict, "ERROR")
        self.assertIn("ValueError", played.text)
        self.assertIn("world_size is 'several'", played.text)


class HookRows(Rows):
    """What a subclass may override or read."""

    def test_set_up_raises(self) -> None:
        """If setUp raises after it started the ranks, the error is reported and no rank is left."""
        played = self.play(contract.SetUpRaises, "test_anything")
        self.assertEqual(played.verdict, "ERROR")
        self.assertIn("setUp went wrong", played.text)
        assert isinstance(played.case, contract.SetUpRaises)
        self.assertEqual([pid for pid in played.case.started if os.path.exists(f"/proc/{pid}")], [])

    def test_tear_down_raises(self) -> None:
        """If tearDown raises, the test is an error although its ranks passed."""
        played = self.play(contract.TearDownRaises, "test_anything")
        self.assertEqual(played.verdict, "ERROR")
        self.assertIn("tearDown went wrong", played.text)

    def handles(self, method: str) -> list[int | None]:
        """Returns the exit codes after the test; checks that ranks were alive before it with the
        same pids.
        """
        case = self.play(contract.Handles, method).case
        assert isinstance(case, contract.Handles)
        self.assertEqual([(code, alive) for _, code, alive in case.before], [(None, True)] * 2)
        self.assertEqual([pid for pid, _, _ in case.before], [pid for pid, _, _ in case.after])
        self.assertEqual([alive for _, _, alive in case.after], [False] * 2)
        self.assertEqual(len({os.getpid(), *(pid for pid, _, _ in case.before)}), 3)
        return [code for _, code, _ in case.after]

    def test_handles(self) -> None:
        """The exit code of a rank that passed is 0."""
        self.assertEqual(self.handles("test_pass"), [0, 0])

    def test_handles_of_failed_ranks(self) -> None:
        """The exit code is upstream's for an error, and minus the number for a signal."""
        self.assertEqual(self.handles("test_codes"), [10, -9])

    def test_handles_of_skipped_ranks(self) -> None:
        """All ranks that skipped have the same exit code."""
        self.assertEqual(len(set(self.handles("test_skip"))), 1)

    def test_killed_by_handle(self) -> None:
        """A rank that the parent killed has crashed by that signal."""
        played = self.play(contract.KillsItsRanks, "test_killed")
        self.check(played, "ERROR", Status.CRASHED, "rank 1 crashed: signal SIGKILL")

    def test_overrides(self) -> None:
        """Each overridden hook is called where upstream calls it, and its call of the base works."""
        played = self.play(contract.Overrides, "test_pass")
        self.assertEqual(played.verdict, "pass", played.text)
        assert isinstance(played.case, contract.Overrides)
        self.assertEqual(played.case.calls, ["_join_processes", "_check_return_codes"])
        lines = ["before _run 0 test_pass", "before run_test", "test", "after run_test", "after _run"]
        self.assertEqual(played.rank(0).output.splitlines(), lines)

    def test_overrides_of_a_failing_test(self) -> None:
        """A rank that failed does not go on after ``run_test``."""
        played = self.play(contract.Overrides, "test_fail")
        self.check(played, "FAIL", Status.FAILED, "no further", root=played.outcome.root_cause)
        self.assertEqual(played.rank(0).output.splitlines(), ["before _run 0 test_fail", "before run_test"])

    def test_own_run(self) -> None:
        """A traceback sent over upstream's pipe is the rank's error."""
        played = self.play(contract.OwnRun, "test_fail")
        self.assertEqual(played.verdict, "ERROR")
        self.assertIn("AssertionError: told over the pipe", played.text)

    def test_run_forgets(self) -> None:
        """A rank that never ran its test did not pass."""
        played = self.play(contract.RunForgets, "test_anything")
        self.check(played, "ERROR", Status.CRASHED, "rank 1", "without running the test")

    def test_another_name(self) -> None:
        """Ranks run the method that ``_current_test_name`` names."""
        played = self.play(contract.AnotherName, "test_anything")
        self.assertEqual(played.verdict, "pass", played.text)
        self.assertEqual(played.rank(1).output, "the other method\n")

    def test_class_in_a_function(self) -> None:
        """A case class in a function is a LaunchError that says what to do."""
        played = self.play(contract.local_case(), "test_anything")
        self.assertEqual(played.verdict, "ERROR")
        self.assertIn(LaunchError.__name__, played.text)
        self.assertIn("define test classes at the top of a module", " ".join(played.text.split()))

    def test_class_that_ranks_do_not_find(self) -> None:
        """A class made at run time, which its module does not have, is an error that says so."""
        made = types.new_class("MadeAtRunTime", (contract.Handles,))
        made.__module__, made.__qualname__ = contract.__name__, "MadeAtRunTime"
        played = self.play(made, "test_pass")
        self.assertEqual(played.verdict, "ERROR")
        self.assertIn("has no class MadeAtRunTime", played.text)

    def test_missing_method(self) -> None:
        """A missing method is a ValueError at construction, as in unittest."""
        with self.assertRaisesRegex(ValueError, "no such test method in .*Handles.*: test_nothing"):
            contract.Handles("test_nothing")

    def test_next_to_ordinary_tests(self) -> None:
        """A plain TestCase starts no rank."""
        result = unittest.TestResult()
        contract.NotARankTest("test_pass").run(result)
        self.assertTrue(result.wasSuccessful())


class CodesOnForkServer(CodeRows, OnForkServer):
    """Runs the tests on the fork server."""


class CodesOnSpawn(CodeRows, OnForkedInterpreters):
    """Runs the tests on forks of an interpreter."""


class WorldSizesOnForkServer(WorldSizeRows, OnForkServer):
    """Runs the tests on the fork server."""


class WorldSizesOnSpawn(WorldSizeRows, OnForkedInterpreters):
    """Runs the tests on forks of an interpreter."""


class HooksOnForkServer(HookRows, OnForkServer):
    """Runs the tests on the fork server."""


class HooksOnSpawn(HookRows, OnForkedInterpreters):
    """Runs the tests on forks of an interpreter."""


if __name__ == "__main__":
    unittest.main()
