"""Tests which tests a whole invocation runs and how it names them, in real processes."""

from __future__ import annotations

import shlex
import unittest
from pathlib import Path

from suites.selftest.runner.runs import RUN_TESTS, RunnerCase, journal_records, run_tests, write_module

GOOD = "class T(unittest.TestCase):\n    def test_1(self): pass\n    def test_2(self): pass\n"


class FoundTest(RunnerCase):
    """The tests that names, files and the cache lead to."""

    def test_commands_that_are_shown_work(self) -> None:
        """The commands that a run shows work, also where only a file's path leads to the module."""
        (self.directory / "below").mkdir()
        write_module(self.directory / "below", "test_far", GOOD.replace("pass", "self.fail()", 1))
        write_module(self.directory / "below", "test_bad", "import no_such_module")
        run = self.run_tests("below", "--seed", "3")
        shown = [
            line.split(": ", 1)[1] for line in run.out.splitlines() if line.startswith("rerun what failed")
        ]
        words = shlex.split(shown[0])
        self.assertEqual(words[2:], ["--seed", "3", "below/test_bad.py", "below/test_far.py::T.test_1"])
        again = self.run_tests(*words[2:])
        self.assertEqual(Path(words[1]).resolve(), RUN_TESTS)
        self.assertEqual([r.id for r in again.records], [r.id for r in run.records if not r.ok])
        self.assertIn(f"reproduce: {' '.join(words[:4])} below/test_far.py::T.test_1\n", run.out)

    def test_commands_that_are_shown_for_odd_names(self) -> None:
        """The shown commands work for inherited tests and for names that are no identifiers."""
        below = self.directory / "below"
        below.mkdir()
        write_module(
            below, "base_cases", "class Common(unittest.TestCase):\n    def test_x(self): self.fail()\n"
        )
        body = "from base_cases import Common\nclass N(unittest.TestCase): pass\n"
        odd = ["test_a/b", "test_load.py", "test_p[x.y=0.5]"]
        write_module(below, "test_inh", f"{body}for n in {odd}: setattr(N, n, lambda self: self.fail())\n")
        here = {"HARNESS_STATE_DIR": str(self.directory / ".harness")}
        for cwd, path in ((self.directory, "below/test_inh.py"), (below, "test_inh.py")):
            run = run_tests(cwd, path, **here)
            failed = sorted(record.id for record in journal_records(self.directory))
            self.assertEqual(len(failed), 4, run.out)
            shown = [line.partition(": ")[2] for line in run.out.splitlines()
                     if line.startswith(("reproduce: ", "rerun what failed: "))]  # fmt: skip
            again = []
            for command in shown:
                with self.subTest(cwd=cwd, command=command):
                    done = run_tests(cwd, *shlex.split(command)[2:], **here)
                    self.assertEqual(done.code, 1, done.err)
                    again += [record.id for record in journal_records(self.directory)]
            self.assertEqual(sorted(again), sorted(failed * 2))

    def test_helpers_outside_of_the_project_are_no_old_news(self) -> None:
        """A change in a helper outside of the project makes the cache forget the tests made from it."""
        (self.directory / "table.py").write_text("CASES = [1]\n")
        self.write(
            "test_g",
            """
            from table import CASES
            class T(unittest.TestCase): pass
            for case in CASES: setattr(T, f"test_{case}", lambda self: None)
            """,
        )
        self.assertEqual(self.run_tests("test_g", "--list").out, "test_g.T.test_1\n")
        (self.directory / "table.py").write_text("CASES = [1, 22]\n")
        self.assertEqual(self.run_tests("test_g", "--list").out, "test_g.T.test_1\ntest_g.T.test_22\n")

    def test_tests_that_are_made_from_no_source(self) -> None:
        """A run finds tests that depend on a data file or a variable, whatever was listed before."""
        self.write(
            "test_g",
            """
            class T(unittest.TestCase):
                def test_fine(self): pass
            for n in open("cases").read().split():
                setattr(T, f"test_{n}", lambda self, n=n: self.assertGreater(int(n), 0))
            if "MY_FLAG" in os.environ:
                class Flagged(unittest.TestCase):
                    def test_flag(self): self.fail()
            """,
        )
        (self.directory / "cases").write_text("1")
        self.assertEqual(self.run_tests("test_g").code, 0)
        (self.directory / "cases").write_text("1 -3")
        for argv in ([], ["-k", "3"], ["test_g.T.test_-3"], ["--include", "test_g.*3"]):
            with self.subTest(argv=argv):
                run = self.run_tests("test_g", *argv)
                self.assertEqual((run.code, run.statuses.get("test_-3")), (1, "failed"), run.out)
        self.assertEqual(self.run_tests("test_g", MY_FLAG="1").statuses["test_flag"], "failed")

    def test_a_module_that_does_not_import(self) -> None:
        """A module that does not import fails the run, however narrow the selection is."""
        self.write("test_g", GOOD)
        self.write("test_bad", "import no_such_module\n" + GOOD)
        for argv in (["-k", "test_1", "."], ["--include", "test_*.[TU]", "."], ["test_bad.py::T.test_1"]):
            with self.subTest(argv=argv):
                run = self.run_tests(*argv)
                self.assertEqual((run.code, run.statuses.get("test_bad")), (1, "error"), run.err)
                self.assertIn("no_such_module", run.out)
        run = self.run_tests(".", "--exclude", "test_bad")
        self.assertEqual((run.code, len(run.records)), (0, 2), run.out)

    def test_two_files_of_one_module(self) -> None:
        """If two files have the same module name, the one that is named runs."""
        for name, test in (("c", "test_common"), ("d", "test_fails")):
            (self.directory / name).mkdir()
            body = (
                f"class T(unittest.TestCase):\n    def test_common(self): pass\n    def {test}(self): pass\n"
            )
            write_module(self.directory / name, "test_x", body)
        for environ in ({}, {"PYTHONPATH": f"{self.directory / 'c'}:{self.directory / 'd'}"}):
            for name in ("c", "d"):
                with self.subTest(name=name, environ=environ):
                    run = self.run_tests(f"{name}/test_x.py", "-v", **environ)
                    listed = self.run_tests(f"{name}/test_x.py", "--list", **environ)
                    self.assertEqual("test_fails" in run.statuses, name == "d", run.out)
                    self.assertEqual("test_fails" in listed.out, name == "d", listed.out)

    def test_a_file_whose_module_is_another(self) -> None:
        """A file whose module name leads to another file is an error and does not run the other's tests."""
        self.write("random", GOOD)
        run = self.run_tests("random.py")
        self.assertEqual((run.code, list(run.statuses.values())), (1, ["error"]), run.out)
        self.assertIn(f"{self.directory / 'random.py'} is the module random, and another file", run.out)


class LastFailedTest(RunnerCase):
    """Runs that are given --last-failed."""

    def test_exactly_what_failed(self) -> None:
        """Exactly what failed runs again, and then nothing is left to run."""
        self.write(
            "test_l",
            """
            class T(unittest.TestCase):
                def test_fixed(self): self.assertTrue(os.path.exists("mended"))
                def test_fine(self): pass
            """,
        )
        self.assertEqual(self.run_tests("test_l").code, 1)
        (self.directory / "mended").touch()
        run = self.run_tests("--last-failed")
        self.assertEqual([r.id for r in run.records], ["test_l.T.test_fixed"])
        self.assertEqual(run.code, 0)
        again = self.run_tests("--last-failed")
        self.assertEqual(again.code, 5)
        self.assertIn("nothing failed", again.out)

    def test_as_it_was_run(self) -> None:
        """What failed because of an option or a variable of the last run fails again without it."""
        self.write(
            "test_l",
            """
            class T(unittest.TestCase):
                def test_1(self): self.assertNotEqual(os.environ["PYTORCH_TEST_WITH_SLOW"], "1")
                def test_2(self): self.assertNotEqual(os.environ["HARNESS_STRICT"], "1")
            """,
        )
        self.assertEqual(self.run_tests("test_l", "--strict", PYTORCH_TEST_WITH_SLOW="1").code, 1)
        for _ in range(2):
            run = self.run_tests("--last-failed")
            self.assertEqual((run.code, run.statuses), (1, {"test_1": "failed", "test_2": "failed"}))

    def test_a_module_that_broke(self) -> None:
        """A module that no longer imports fails in its tests' place, and its tests run once it is mended."""
        failing = "class T(unittest.TestCase):\n    def test_1(self): self.fail()\n"
        self.write("test_l", failing)
        self.assertEqual(self.run_tests("test_l.T.test_1").code, 1)
        self.write("test_l", "import nosuchmodule\n" + failing)
        run = self.run_tests("--last-failed")
        self.assertEqual((run.code, run.statuses), (1, {"test_l": "error"}), run.err)
        self.assertIn("nosuchmodule", run.of("test_l").reason)
        self.write("test_l", failing)
        self.assertEqual(self.run_tests("--last-failed").statuses, {"test_1": "failed"})

    def test_a_test_that_was_removed(self) -> None:
        """A test that was removed is reported and is no failure."""
        self.write(
            "test_l", "class T(unittest.TestCase):\n    def test_1(self): 1/0\n    def test_2(self): 1/0\n"
        )
        self.run_tests("test_l")
        self.write("test_l", "class T(unittest.TestCase):\n    def test_2(self): pass\n")
        run = self.run_tests("--last-failed")
        self.assertEqual((run.code, run.statuses), (0, {"test_2": "passed"}), run.out)
        self.assertIn("not found: 1 test of the last run: test_l.T.test_1\n", run.out)

    def test_a_shard(self) -> None:
        """The failures of a shard are not split again by the same variables."""
        self.write(
            "test_l", "class T(unittest.TestCase):\n    def test_1(self): 1/0\n    def test_2(self): 1/0\n"
        )
        self.write("test_m", "class T(unittest.TestCase):\n    def test_1(self): 1/0\n")
        (self.directory / "times.json").write_text(
            '{"version": 1, "tests": {"test_l.T.test_1": 1, "test_l.T.test_2": 1, "test_m.T.test_1": 9}}'
        )
        shard = {"CI_NODE_TOTAL": "2", "CI_NODE_INDEX": "2"}
        first = self.run_tests("test_l", "test_m", "--timings", "times.json", **shard)
        again = self.run_tests("--last-failed", **shard)
        self.assertEqual(len(first.statuses), 2, first.out)
        self.assertEqual(again.statuses, first.statuses)


class LogsTest(RunnerCase):
    """The logs of ranks in a run's directory."""

    def test_each_attempt_has_its_own(self) -> None:
        """A rerun keeps the logs of the attempt that failed; what another run has left there is removed."""
        self.write(
            "test_l",
            """
            from harness.cases.multiprocess import MultiProcessTestCase

            class Ranks(MultiProcessTestCase):
                world_size = 2
                def tearDown(self): super().tearDown(); open("again", "w").close()
                def test_once(self):
                    again = os.path.exists("again")
                    print("passes" if again else "fails")
                    self.assertTrue(again)
            """,
        )
        logs = self.directory / "out" / "logs"
        logs.mkdir(parents=True)
        for name in ("test_l.Ranks.test_gone.rank0.log", "notes.log"):
            (logs / name).touch()
        done = self.run_tests("test_l", "--reruns", "1", "--report-dir", "out")
        self.assertEqual(done.code, 0, done.out)
        texts = {path.name: path.read_text() for path in logs.iterdir()}
        expected = {
            f"test_l.Ranks.test_once{attempt}.rank{rank}.log": f"{said}\n"
            for attempt, said in (("", "fails"), (".attempt2", "passes"))
            for rank in (0, 1)
        }
        self.assertEqual(texts, {**expected, "notes.log": ""})
        first = done.records[0].ranks[0].log
        self.assertIn("fails", Path(first or "").read_text())


if __name__ == "__main__":
    unittest.main()
