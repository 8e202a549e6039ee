"""Tests what options and environment mean for a run, by tables; nothing is run."""

from __future__ import annotations

import os
import unittest
from pathlib import Path

from harness.errors import UsageError
from harness.report.base import RunInfo
from harness.runner import journal
from harness.runner.command_line.invocation import Invocation, resolve
from harness.runner.command_line.options import parse
from harness.runner.scheduling.plan import Policy
from harness.runner.scheduling.time_limits import LONGEST_UPSTREAM_S
from harness.settings import TIMEOUT_S, EnvVar, Settings
from harness.variables import VERDICT_VARIABLES
from suites.selftest.runner import runs


def invocation(*argv: str, **environ: str) -> Invocation:
    """Returns the invocation of a command line in an environment."""
    return resolve(parse(argv), argv, environ)


class DebuggerTest(unittest.TestCase):
    """A run with a debugger, which has the terminal, one job and no deadline."""

    def test_asked_for(self) -> None:
        """The option and the variable ask for it alike."""
        for asked in (invocation("--pdb"), invocation("--pdb-rank", "0"), invocation(HARNESS_PDB_RANK="0")):
            with self.subTest(argv=asked.argv):
                self.assertTrue(asked.debugger and asked.streams)
                self.assertEqual((asked.jobs, asked.limits.timeout_s), (1, None))
                order = asked.fork_options(None)
                self.assertTrue(order.terminal and order.stream)

    def test_not_asked_for(self) -> None:
        """A run without either has a deadline and no terminal."""
        plain = invocation(HARNESS_PDB_RANK="")
        self.assertFalse(plain.debugger or plain.streams)
        self.assertEqual(plain.limits.timeout_s, TIMEOUT_S)

    def test_two_debuggers(self) -> None:
        """Two debuggers for the one terminal are refused."""
        with self.assertRaisesRegex(UsageError, "--pdb and HARNESS_PDB_RANK exclude each other"):
            invocation("--pdb", HARNESS_PDB_RANK="1")
        with self.assertRaisesRegex(UsageError, "--pdb and --pdb-rank exclude each other"):
            invocation("--pdb", "--pdb-rank", "1")


class StreamTest(unittest.TestCase):
    """A run whose tests print to its own output."""

    def test_asked_for(self) -> None:
        """The option and the variable ask for it alike."""
        for asked in (invocation("-s"), invocation(HARNESS_RANK_OUTPUT="stream")):
            with self.subTest(argv=asked.argv):
                self.assertTrue(asked.streams and asked.fork_options(None).stream)
                self.assertEqual(asked.test_environ["HARNESS_RANK_OUTPUT"], "stream")
                self.assertFalse(asked.debugger)


class ForkOptionsTest(unittest.TestCase):
    """What workers get of the run's directory."""

    def test_directories(self) -> None:
        """Logs go there, and cells where the report about them is asked for; neither without a directory."""
        plain, reported = (
            invocation(HARNESS_LOG_DIR=""),
            invocation("--report", "conformance", HARNESS_LOG_DIR=""),
        )
        run = Path("/runs/1")
        self.assertEqual(plain.fork_options(None).environ, reported.fork_options(None).environ)
        logs = {EnvVar.LOG_DIR: "/runs/1/logs"}
        self.assertLessEqual(logs.items(), plain.fork_options(run).environ.items())
        self.assertNotIn(EnvVar.CONFORMANCE, plain.fork_options(run).environ)
        both = {**logs, EnvVar.CONFORMANCE: "/runs/1/cells"}
        self.assertLessEqual(both.items(), reported.fork_options(run).environ.items())

    def test_calls(self) -> None:
        """A timeline shows the calls of tests that pass, and nothing else does."""
        kept = [invocation(*argv).fork_options(None).keeps_calls for argv in (("--trace",), ())]
        self.assertEqual(kept, [True, False])


class PolicyTest(unittest.TestCase):
    """How often everything is run, and when that ends."""

    def test_table(self) -> None:
        """A run is endless only if --until-fail is given without a number."""
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
        """The seed is None, the named one, or one that is drawn."""
        self.assertIsNone(invocation().shuffle)
        self.assertEqual(invocation("--shuffle", "7").shuffle, 7)
        self.assertNotEqual(invocation("--shuffle").shuffle, invocation("--shuffle").shuffle)

    def test_resumed(self) -> None:
        """A resumed run has the earlier run's seed, unless another one is named."""
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
                    options = invocation(*argv).given
                    made.begin(RunInfo(argv=argv, cwd=os.getcwd(), options=options, shuffle=before))
                self.assertEqual(invocation(f"--resume={directory}", *now).shuffle, wanted)


class SeedOfExamplesTest(unittest.TestCase):
    """The seed of a run that is asked for a number of examples."""

    def test_fresh(self) -> None:
        """It is drawn, and part of the command that reproduces a failure, unless one is given."""
        seeds = {invocation("--examples", "9").settings.seed for _ in range(3)}
        self.assertGreater(len(seeds), 1)
        self.assertEqual(invocation("--examples", "9", "--seed", "7").settings.seed, 7)
        self.assertEqual(invocation("--examples", "9", HARNESS_SEED="8").settings.seed, 8)
        self.assertEqual(invocation("--seed", "7").settings.seed, 7)
        self.assertEqual(invocation().settings.seed, 1234)

    def test_resumed(self) -> None:
        """A resumed run goes on with the seed that the earlier one drew."""
        directory = runs.new_directory(self)
        with journal.create(directory) as made:
            options = invocation("--examples", "9").given
            made.begin(RunInfo(argv=("--examples", "9"), cwd=os.getcwd(), options=options, seed=5))
        self.assertEqual(invocation(f"--resume={directory}").settings.seed, 5)
        self.assertEqual(invocation(f"--resume={directory}", "--seed", "6").settings.seed, 6)


class DeadlineTest(unittest.TestCase):
    """The deadlines of a drop-in run."""

    def test_upstreams(self) -> None:
        """If no deadline is set, upstream's hold test by test, and the watchdog waits for the longest."""
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
        """A deadline that the run sets holds for all tests."""
        for run in (invocation("--drop-in", "--timeout", "7"), invocation("--drop-in", HARNESS_TIMEOUT="7")):
            with self.subTest(argv=run.argv):
                self.assertEqual(run.test_environ["HARNESS_TIMEOUT"], "7.0")
                self.assertEqual(run.limits.timeout_s, 7.0)

    def test_no_drop_in(self) -> None:
        """Without drop-in the deadline is 120 s or upstream's variable."""
        self.assertEqual(invocation().test_environ["HARNESS_TIMEOUT"], repr(TIMEOUT_S))
        run = invocation(DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="900")
        self.assertEqual((run.test_environ["HARNESS_TIMEOUT"], run.limits.timeout_s), ("900.0", 900.0))


class VariablesTest(unittest.TestCase):
    """The environment variables that decide verdicts."""

    def test_deciding_variables(self) -> None:
        """The variables of conditions are all that is read but for output and hosts."""
        others = {"HARNESS_RANK_OUTPUT", "HARNESS_LOG_DIR", "HARNESS_PDB_RANK", "HARNESS_CONFORMANCE"}
        others |= {"HARNESS_HOSTS", "HARNESS_PLACEMENT", "HARNESS_HOST_TIMEOUT"}
        self.assertEqual(set(Settings().to_environ()) - set(VERDICT_VARIABLES), others)


class CommandTest(unittest.TestCase):
    """The command that a user types to run a test again under the same conditions."""

    def test_table(self) -> None:
        """Options and variables give the same command, which leaves out defaults."""
        table: tuple[tuple[list[str], dict[str, str], str], ...] = (
            ([], {}, ""),
            (["--seed=3", "--timeout=2.5"], {}, " --seed 3 --timeout 2.5"),
            (["--timeout-multiplier=4"], {}, " --timeout-multiplier 4"),
            ([], {"HARNESS_TIMEOUT_MULTIPLIER": "0.5"}, " --timeout-multiplier 0.5"),
            (["--examples=9", "--seed=2", "--ranks=local"], {}, " --seed 2 --examples 9 --ranks local"),
            (["--chaos=0"], {}, " --chaos 0"),
            (["--slow", "--strict", "--drop-in"], {}, " --slow --strict --drop-in"),
            (["--plugin=a.b", "--backend=Mine"], {}, " --backend mine --plugin a.b"),
            ([], {"HARNESS_DEVICE": "cuda"}, " --device cuda"),
            ([], {"HARNESS_SEED": "3", "HARNESS_STRICT": "1"}, " --seed 3 --strict"),
            ([], {"HARNESS_SEED": "3", "HARNESS_EXAMPLES": "5"}, " --seed 3 --examples 5"),
            ([], {"HARNESS_TIMEOUT": "9"}, " --timeout 9"),
            (["--drop-in"], {"DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": "900"}, " --drop-in"),
        )
        usual = invocation().command
        for argv, environ, words in table:
            with self.subTest(argv=argv, environ=environ):
                self.assertEqual(invocation(*argv, **environ).command, usual + words)


if __name__ == "__main__":
    unittest.main()
