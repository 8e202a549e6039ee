"""Tests what becomes of a test whose class overrides upstream's ``run_test``, in a rank without a parent."""

from __future__ import annotations

import sys
import unittest
from collections.abc import Callable, Mapping
from typing import Any

from harness.dropin.own_run_test import judge, judge_with_subclasses
from harness.dropin.ranks import UpstreamRanks
from harness.outcomes import EXIT_ERROR, EXIT_SKIPPED, Status
from suites.selftest.cases.recording_channel import RecordingChannel

OWN_SKIP = 86


class Leaving(UpstreamRanks, unittest.TestCase):
    """Leaves with an exit code for what the method raises; unittest sees no test in it."""

    upstream_way: Mapping[str, Callable[..., Any]] = {}  # not what another test has installed

    def run_test(self, test_name: str, parent_pipe: Any) -> None:
        """Runs the method, as upstream's does."""
        try:
            getattr(self, test_name)()
        except unittest.SkipTest:
            sys.exit(OWN_SKIP)
        except Exception:  # noqa: BLE001 - as upstream's
            sys.exit(EXIT_ERROR)

    def passes(self) -> None:
        """Passes."""

    def fails(self) -> None:
        """Fails."""
        self.fail("wrong")

    def raises(self) -> None:
        """Raises what is no assertion."""
        raise ValueError("also wrong")

    def skips(self) -> None:
        """Skips for a reason."""
        self.skipTest("for a reason")

    def leaves(self) -> None:
        """Ends the process, and run_test hears nothing of it."""
        sys.exit(0)


class Swallowing(Leaving):
    """Lets nothing fail."""

    def run_test(self, test_name: str, parent_pipe: Any) -> None:
        """Leaves by SystemExit no more."""
        try:
            super().run_test(test_name, parent_pipe)
        except SystemExit:
            self.swallowed = True


class Preparing(UpstreamRanks, unittest.TestCase):
    """Does something before the harness's ``run_test``."""

    upstream_way: Mapping[str, Callable[..., Any]] = {}

    def run_test(self, test_name: str, parent_pipe: Any) -> None:
        """Runs the method by the harness's."""
        self.prepared = True
        super().run_test(test_name, parent_pipe)

    def finds_it(self) -> None:
        """Finds what was prepared."""
        self.addCleanup(self.fail, "in a cleanup")
        self.assertTrue(self.prepared)


def run(case: Any, method: str) -> tuple[Any, object]:
    """Runs a method in a rank; returns its result, and the code of a SystemExit or ``"returned"``."""
    channel = RecordingChannel()
    try:
        case._run(0, method, "/rendezvous", channel)
    except SystemExit as ending:
        return channel.result, ending.code
    return channel.result, "returned"


class OwnRunTestTest(unittest.TestCase):
    """What is recorded of a test."""

    def test_results(self) -> None:
        """The result is that of the exception which the method raised, whatever the exit code stands for."""
        for method, status, message, code in (
            ("passes", Status.PASSED, None, "returned"),
            ("fails", Status.FAILED, "wrong", EXIT_ERROR),
            ("raises", Status.ERROR, "also wrong", EXIT_ERROR),
            ("skips", Status.SKIPPED, None, EXIT_SKIPPED),
        ):
            with self.subTest(method):
                result, ended = run(Leaving, method)
                error = None if result.error is None else result.error.message
                self.assertEqual((result.status, error, ended), (status, message, code))
                wanted = "for a reason" if status is Status.SKIPPED else None
                self.assertEqual(result.skip_reason, wanted)

    def test_nothing_recorded(self) -> None:
        """An exit of which the method's exceptions say nothing is left to the rules of all ranks."""
        self.assertEqual(run(Leaving, "leaves"), (None, 0))

    def test_swallowed(self) -> None:
        """A run_test over another one has the last word only where that has recorded nothing."""
        self.assertEqual(run(Swallowing, "passes")[0].status, Status.PASSED)
        self.assertEqual(run(Swallowing, "fails")[0].status, Status.FAILED)
        self.assertEqual(run(Swallowing, "leaves")[0].status, Status.PASSED)

    def test_call_of_the_harness_s(self) -> None:
        """Where it calls ``super().run_test`` the harness judges, cleanups included."""
        result, ended = run(Preparing, "finds_it")
        self.assertEqual(
            (result.status, result.error.message, ended), (Status.FAILED, "in a cleanup", EXIT_ERROR)
        )

    def test_outside_of_ranks(self) -> None:
        """A run_test that somebody else calls, with a pipe of their own, is called as it is."""
        with self.assertRaises(SystemExit):
            Leaving("fails").run_test("fails", None)

    def test_once(self) -> None:
        """A function is judged once, and so are those of classes that were there before."""
        own = Leaving.run_test
        judge(Leaving)
        self.assertIs(Leaving.run_test, own)

        class Base:
            """Stands for upstream's class before it is changed."""

        class Below(Base):
            """Is there before that."""

            def run_test(self) -> None:
                """Does nothing."""

        before = Below.run_test
        judge_with_subclasses(Base)
        self.assertIsNot(Below.run_test, before)


if __name__ == "__main__":
    unittest.main()
