"""Self-tests of harness.errors: which built-in classes catch each exception, and what it carries."""

from __future__ import annotations

import pickle
import subprocess
import sys
import unittest
from unittest import mock

from harness import errors
from harness.errors import (
    CommunicationWarning,
    HarnessError,
    LaunchError,
    MethodNotRun,
    ProtocolError,
    RankError,
    RankFailure,
    RankLeakWarning,
    RankTestError,
    ServerLost,
    UsageError,
    WrongPlatform,
    of_the_platform,
)
from harness.outcomes import Status, TestOutcome

# Exception -> the classes by which a user's ``except`` or unittest must be able to catch it.
CAUGHT_AS: dict[type[BaseException], set[type[BaseException]]] = {
    UsageError: {HarnessError, ValueError},
    WrongPlatform: {UsageError, ImportError},
    LaunchError: {HarnessError, RuntimeError},
    ServerLost: {LaunchError},
    MethodNotRun: {HarnessError, RuntimeError},
    ProtocolError: {HarnessError},
    RankFailure: {RankTestError, HarnessError, AssertionError, RuntimeError},
    RankError: {RankTestError, HarnessError, RuntimeError},
    CommunicationWarning: {UserWarning},
    RankLeakWarning: {UserWarning},
}


class PlatformTest(unittest.TestCase):
    """What is said where something cannot be imported."""

    def test_by_platform(self) -> None:
        """Elsewhere than on Linux what is needed; on Linux what is missing."""
        for platform, said in (
            ("win32", "needs Linux, and this is win32: on Windows use WSL 2"),
            ("linux", "none"),
        ):
            with (
                self.subTest(platform),
                mock.patch("sys.platform", platform),
                self.assertRaisesRegex(ImportError, said),
                of_the_platform(),
            ):
                raise ImportError("none")

    def test_by_name(self) -> None:
        """Names of ``harness`` and the command say so, where a module of POSIX is not there."""
        script = (
            "import subprocess, sys, torch.distributed, unittest; sys.modules['fcntl'] = None\n"
            "sys.platform = 'win32'\n"
            "{}"
        )
        for last, code in (
            ("import harness; harness.DistributedTestBase", 1),
            ("from harness.runner.cli import main; sys.exit(main(['c10d']))", 2),
        ):
            with self.subTest(last):
                done = subprocess.run(
                    [sys.executable, "-c", script.format(last)],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn("torch-harness needs Linux, and this is win32", done.stderr)


class TreeTest(unittest.TestCase):
    """The classes and their bases."""

    def test_each_is_caught_as_documented(self) -> None:
        """Every exception has the base classes that callers and upstream's tests rely on."""
        for error, bases in CAUGHT_AS.items():
            for base in bases:
                with self.subTest(error=error.__name__, base=base.__name__):
                    self.assertTrue(issubclass(error, base))

    def test_only_a_failed_assertion_is_a_failure_to_unittest(self) -> None:
        """unittest counts an AssertionError as a failure and any other exception as an error."""
        failures = {error for error in CAUGHT_AS if issubclass(error, AssertionError)}
        self.assertEqual(failures, {RankFailure})

    def test_the_table_is_complete(self) -> None:
        """Every public exception of the module is in the table above or is a base in it."""
        public = {e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, BaseException)}
        self.assertEqual(public, {HarnessError, RankTestError, *CAUGHT_AS})


class RankProblemTest(unittest.TestCase):
    """What a multi-rank test raises in the parent."""

    def test_it_has_the_message_and_the_outcome(self) -> None:
        """The message is what is printed; the outcome is there for whoever catches the error."""
        outcome = TestOutcome(Status.FAILED, reason="rank 1 failed")
        for kind in (RankFailure, RankError):
            with self.subTest(kind=kind.__name__):
                error = kind("rank 1 failed", outcome)
                self.assertEqual(str(error), "rank 1 failed")
                self.assertIs(error.outcome, outcome)
                self.assertIsNone(kind("no ranks").outcome)

    def test_it_can_be_pickled(self) -> None:
        """An error that crosses to another process keeps its type and its message."""
        error = pickle.loads(pickle.dumps(RankError("rank 0 crashed")))
        self.assertEqual((type(error), str(error)), (RankError, "rank 0 crashed"))


if __name__ == "__main__":
    unittest.main()
