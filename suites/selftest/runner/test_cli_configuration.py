"""Whole runs in a project with a configuration file: by the runner, unittest, as a script and by pytest."""

from __future__ import annotations

import itertools
import subprocess
import sys
import unittest

from suites.selftest.runner.runs import PATIENCE_S, RUN_TESTS, Finished, RunnerCase, journal_records

MODULE = """
from harness import MultiProcessTestCase, load_tests, run_tests
from harness.environment import settings

class T(unittest.TestCase):
    def test_variables(self):
        self.assertEqual((os.environ.get("A"), os.environ.get("HARNESS_SEED")), ("file", "7"))

class R(MultiProcessTestCase):
    world_size = 2
    def test_ranks(self):
        self.assertEqual((os.environ.get("A"), settings().seed), ("file", 7))

if __name__ == "__main__":
    run_tests()
"""
SETTINGS = "seed = 7\n[environment]\nA = 'file'\n"
OVERRIDES = """
test-paths = "tests"
[[overrides]]
tests = "*.test_hangs"
timeout = 1
[[overrides]]
tests = "*.test_again"
reruns = { count = 2, delay = 0.05 }
[[overrides]]
tests = "*.test_flaky"
quarantine = { until = 9999-12-31, reason = "known" }
[[overrides]]
tests = "*.test_pooled"
ranks = "pooled"
environment = { B = "override" }
"""
TESTS = """
from harness import MultiProcessTestCase
from harness.environment import settings
from harness.requirements import timeout

class T(unittest.TestCase):
    def test_again(self):
        self.assertTrue(os.path.exists("again"), open("again", "w").close())
    def test_flaky(self):
        self.fail("now and then")

class R(MultiProcessTestCase):
    world_size = 2
    @timeout(600)
    def test_hangs(self):
        threading.Event().wait()
    def test_pooled(self):
        self.assertEqual((settings().ranks, os.environ["B"]), ("pooled", "override"))
"""
FAILS = """
class T(unittest.TestCase):
    def test_it(self):
        self.fail((os.environ["HARNESS_SEED"], os.environ["PYTORCH_TEST_WITH_SLOW"]))
"""
BARE = "import sys; sys.argv[0] = 'torch-harness'; from harness.runner.cli import main; sys.exit(main())"


class ConfiguredCase(RunnerCase):
    """Base class of tests with a project and its file."""

    def configure(self, text: str, *, name: str = "torch-harness.toml") -> None:
        """Writes the project's file."""
        (self.directory / name).write_text(text, encoding="utf-8")

    def python(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs Python in the project, which finds the harness."""
        found = {**self.environ(**variables), "PYTHONPATH": str(RUN_TESTS.parent)}
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.directory, env=found,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip


class SettingsTest(ConfiguredCase):
    """Settings and variables of the file, which hold however the tests are run."""

    def test_every_way_to_run(self) -> None:
        """The runner, a script, unittest by load_tests, and pytest take them, in ranks too."""
        self.write("test_it", MODULE)
        self.configure(SETTINGS)
        pytest = ("-m", "pytest", "-q", "-p", "no:torch_harness", "-p", "harness.pytest_plugin.plugin")
        for arguments in (
            (str(RUN_TESTS), "test_it.py"),
            ("test_it.py",),
            ("-m", "unittest", "test_it"),
            (*pytest, "test_it.py"),
        ):
            with self.subTest(arguments):
                done = self.python(*arguments)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_unknown_words(self) -> None:
        """Unknown keys and variables are one line and exit code 2 (pytest's is 4), however tests are run."""
        self.write("test_it", MODULE)
        pytest = ("-m", "pytest", "-q", "-p", "no:torch_harness", "-p", "harness.pytest_plugin.plugin")
        for text, variables, said in (
            ("sed = 7\n", {}, "torch-harness.toml:1: unknown key sed; did you mean seed?"),
            ("", {"HARNESS_TIMOUT": "5"}, "HARNESS_TIMOUT: no such variable of the harness; did you mean"),
        ):
            self.configure(text)
            for arguments, code in (
                ((str(RUN_TESTS), "test_it.py"), 2),
                (("test_it.py",), 2),
                (("-m", "unittest", "test_it"), 2),
                ((*pytest, "test_it.py"), 4),
                (("-m", "harness.run", "-n", "1", "test_it.py"), 2),
            ):
                with self.subTest(said, arguments=arguments):
                    done = self.python(*arguments, **variables)
                    self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                    self.assertIn(said, done.stdout + done.stderr)


class RunnerTest(ConfiguredCase):
    """What only the runner does."""

    def test_overrides(self) -> None:
        """Deadlines over those of the test, reruns, quarantine, rank modes and variables hold by pattern."""
        (self.directory / "tests").mkdir()
        self.write("tests/test_it", TESTS)
        self.configure(OVERRIDES)
        run = self.bare()
        self.assertEqual(
            run.statuses,
            {
                "test_again": "passed",
                "test_flaky": "expected failure",
                "test_hangs": "timed out",
                "test_pooled": "passed",
            },
            run.out + run.err,
        )
        self.assertEqual((run.of("test_again").attempt, run.of("test_again").flaky), (2, True))
        self.assertIn("in quarantine until 9999-12-31: known (failed: AssertionError", run.out)
        self.assertIn("1 failed in quarantine", run.out)

    def bare(self, *arguments: str, **variables: str) -> Finished:
        """Runs the installed command without names."""
        done = self.python("-c", BARE, *arguments, **variables)
        return Finished(done.returncode, done.stdout, done.stderr, tuple(journal_records(self.directory)))

    def test_bare_command(self) -> None:
        """In a project without a file, all its tests run and nothing else."""
        for name in ("test_a", "sub/test_b", "build/test_c", ".hidden/test_d", "env/lib/test_e"):
            (self.directory / name).parent.mkdir(parents=True, exist_ok=True)
            self.write(name, "class T(unittest.TestCase):\n    def test_it(self):\n        pass\n")
        (self.directory / "env" / "pyvenv.cfg").touch()
        listed = self.python("-c", BARE, "--list")
        self.assertEqual(listed.stdout.split(), ["test_b.T.test_it", "test_a.T.test_it"])
        (self.directory / "sub" / "test_b.py").unlink()
        (self.directory / "test_a.py").unlink()
        empty = self.python("-c", BARE)
        self.assertEqual((empty.returncode, empty.stdout), (2, ""))
        self.assertIn("no test_*.py below this directory", empty.stderr)

    def test_precedence(self) -> None:
        """Command line, environment, profile, file: each goes before the next; flags can be taken back."""
        self.write("test_it", FAILS)
        self.configure("seed = 1\nslow = true\n[profiles.ci]\nseed = 2\n")
        for argv, variables, seed, slow in (
            ((), {}, "1", "1"),
            ((), {"HARNESS_PROFILE": "ci"}, "2", "1"),
            (("--profile=ci",), {"HARNESS_SEED": "3"}, "3", "1"),
            (("--profile=ci", "--seed=4", "--no-slow"), {"HARNESS_SEED": "3"}, "4", "0"),
            (("--no-config",), {}, "1234", "0"),
        ):
            with self.subTest(argv, **variables):
                run = self.run_tests("test_it.py", *argv, **variables)
                self.assertIn(str((seed, slow)), run.of("test_it").details, run.err)

    def test_resumed(self) -> None:
        """--last-failed keeps the profile of the run before, and with it what that took from the file."""
        self.write("test_it", FAILS)
        self.configure("seed = 1\n[profiles.ci]\nseed = 2\n")
        self.run_tests("test_it.py", "--profile=ci")
        run = self.run_tests("--last-failed")
        self.assertIn("('2', '0')", run.of("test_it").details)
        self.assertIn("--profile ci", run.out)

    def test_groups(self) -> None:
        """Tests of a group of one never run at the same time, whatever slots are free."""
        body = "\n".join(
            f"class T{n}(unittest.TestCase):\n    def setUpClass(): pass\n    def test_it(self):\n"
            "        os.close(os.open('lock', os.O_CREAT | os.O_EXCL))\n"
            "        for _ in range(2000): os.getpid()\n"
            "        os.unlink('lock')\n"
            for n in range(6)
        )
        self.write("test_it", body)
        self.configure("[[overrides]]\ntests = 'test_it'\ngroup = 'one'\n[groups.one]\nlimit = 1\n")
        run = self.run_tests("test_it.py", "--jobs=4", "--isolate")
        self.assertEqual((run.code, len(run.records)), (0, 6), run.out)
        spans = sorted((r.started_s, r.started_s + r.duration_s) for r in run.records)
        self.assertTrue(all(first[1] <= second[0] for first, second in itertools.pairwise(spans)))


if __name__ == "__main__":
    unittest.main()
