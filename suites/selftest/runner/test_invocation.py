"""What options and environment come to, as tables; nothing is run."""

from __future__ import annotations

import os
import unittest

from harness.errors import UsageError
from harness.runner import journal
from harness.runner.invocation import LONGEST_UPSTREAM_S, Invocation, resolve
from harness.runner.journal import Header
from harness.runner.options import parse
from harness.runner.plan import Policy
from harness.settings import TIMEOUT_S
from suites.selftest.runner import runs


def invocation(*argv: str, **environ: str) -> Invocation:
    """The invocation of a command line in an environment."""
    return resolve(parse(argv), argv, environ)


class DebuggerTest(unittest.TestCase):
    """A debugger has the terminal, one job and no deadline, whichever way it was asked for."""

    def test_asked_for(self) -> None:
        """By an option or by the variable."""
        for asked in (invocation("--pdb"), invocation("--pdb-rank", "0"), invocation(HARNESS_PDB_RANK="0")):
            with self.subTest(argv=asked.argv):
                self.assertTrue(asked.debugger and asked.streams)
                self.assertEqual((asked.jobs, asked.limits.timeout_s), (1, None))
                order = asked.fork_options(None)
                self.assertTrue(order.terminal and order.stream)

    def test_not_asked_for(self) -> None:
        """The usual run."""
        plain = invocation(HARNESS_PDB_RANK="")
        self.assertFalse(plain.debugger or plain.streams)
        self.assertEqual(plain.limits.timeout_s, TIMEOUT_S)

    def test_two_debuggers(self) -> None:
        """One terminal has one."""
        with self.assertRaisesRegex(UsageError, "--pdb and HARNESS_PDB_RANK exclude each other"):
            invocation("--pdb", HARNESS_PDB_RANK="1")
        with self.assertRaisesRegex(UsageError, "--pdb and --pdb-rank exclude each other"):
            invocation("--pdb", "--pdb-rank", "1")


class StreamTest(unittest.TestCase):
    """Output goes to the run's own, whichever way that was asked for."""

    def test_asked_for(self) -> None:
        """By an option or by the variable."""
        for asked in (invocation("-s"), invocation(HARNESS_RANK_OUTPUT="stream")):
            with self.subTest(argv=asked.argv):
                self.assertTrue(asked.streams and asked.fork_options(None).stream)
                self.assertEqual(asked.test_environ["HARNESS_RANK_OUTPUT"], "stream")
                self.assertFalse(asked.debugger)


class PolicyTest(unittest.TestCase):
    """How often everything is run, and when that ends."""

    def test_table(self) -> None:
        """Without end only where nobody gave a number."""
        table = (
            ((), Policy()),
            (("--repeat", "3"), Policy(repeats=3)),
            (("--until-fail",), Policy(repeats=0, failfast=True)),
            (("--until-fail", "--repeat", "3"), Policy(repeats=3, failfast=True)),
            (("--until-fail", "--repeat", "1"), Policy(repeats=1, failfast=True)),
            (("--failfast", "--reruns", "2"), Policy(reruns=2, failfast=True)),
        )
        for argv, policy in table:
            with self.subTest(argv=argv):
                self.assertEqual(invocation(*argv).policy, policy)


class ShuffleTest(unittest.TestCase):
    """The seed of the order."""

    def test_fresh(self) -> None:
        """None, the one that is named, or one that is drawn."""
        self.assertIsNone(invocation().shuffle)
        self.assertEqual(invocation("--shuffle", "7").shuffle, 7)
        self.assertNotEqual(invocation("--shuffle").shuffle, invocation("--shuffle").shuffle)

    def test_resumed(self) -> None:
        """The earlier run's, unless another one is named."""
        directory = runs.new_directory(self)
        for argv, before, now, wanted in (
            (("--shuffle",), 5, (), 5),
            (("--shuffle",), 5, ("--shuffle",), 5),
            (("--shuffle",), 5, ("--shuffle", "6"), 6),
            (("--shuffle", "7"), 7, (), 7),
            ((), None, (), None),
        ):
            with self.subTest(argv=argv, now=now):
                with journal.create(directory) as made:
                    made.begin(Header(argv=argv, cwd=os.getcwd(), tests=(), shuffle=before))
                self.assertEqual(invocation(f"--resume={directory}", *now).shuffle, wanted)


class DeadlineTest(unittest.TestCase):
    """By whose deadlines a drop-in run goes."""

    def test_upstreams(self) -> None:
        """Upstream's own, test by test, where nobody sets one; the watchdog waits for the longest of them."""
        cases = (
            (invocation("--drop-in"), LONGEST_UPSTREAM_S),
            (invocation("--drop-in", DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="900"), 900.0),
            (invocation("--drop-in", HARNESS_TIMEOUT=" "), LONGEST_UPSTREAM_S),
        )
        for run, watchdog_s in cases:
            with self.subTest(environ=run.environ):
                self.assertEqual(run.test_environ["HARNESS_TIMEOUT"], "")
                self.assertEqual(run.limits.timeout_s, watchdog_s)

    def test_the_runs(self) -> None:
        """The one that the run sets."""
        for run in (invocation("--drop-in", "--timeout", "7"), invocation("--drop-in", HARNESS_TIMEOUT="7")):
            with self.subTest(argv=run.argv):
                self.assertEqual(run.test_environ["HARNESS_TIMEOUT"], "7.0")
                self.assertEqual(run.limits.timeout_s, 7.0)

    def test_no_drop_in(self) -> None:
        """120 s, or upstream's variable."""
        self.assertEqual(invocation().test_environ["HARNESS_TIMEOUT"], repr(TIMEOUT_S))
        run = invocation(DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="900")
        self.assertEqual((run.test_environ["HARNESS_TIMEOUT"], run.limits.timeout_s), ("900.0", 900.0))


if __name__ == "__main__":
    unittest.main()
