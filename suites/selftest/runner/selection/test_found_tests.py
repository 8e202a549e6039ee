"""Tests which tests an invocation finds, how it names them, and what it says where there are none."""

from __future__ import annotations

import os
import shlex
import unittest
from pathlib import Path

from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.base import RunInfo
from harness.runner.exit_codes import ExitCode
from harness.runner.journal import Journal
from harness.runner.selection.collection import Selected
from harness.runner.selection.found_tests import nothing_code, taken_over, why_nothing
from harness.runner.selection.shard_variables import Shard
from suites.selftest.runner import runs
from suites.selftest.runner.command_line.test_invocation import invocation
from suites.selftest.runner.runs import RUN_TESTS, RunnerCase, journal_records, run_tests, write_module

GOOD = "class T(unittest.TestCase):\n    def test_1(self): pass\n    def test_2(self): pass\n"


class NothingTest(unittest.TestCase):
    """``why_nothing`` and ``nothing_code``: what is said of a run without tests."""

    def test_table(self) -> None:
        """The first reason that holds is told, and only tests in other shards are no failure."""
        for selected, said, code in (
            (
                Selected((), elsewhere=3, slow=2),
                "in shard 2/4: the other shards run all 3 tests",
                ExitCode.OK,
            ),
            (
                Selected((), gone=("m.T.test",), slow=2),
                "no test of the last run is found",
                ExitCode.NOTHING_RAN,
            ),
            (Selected((), slow=2), "2 selected tests are slow; --slow adds them", ExitCode.NOTHING_RAN),
            (
                Selected(()),
                "no test is selected, and no report is written; --list shows",
                ExitCode.NOTHING_RAN,
            ),
        ):
            with self.subTest(said):
                self.assertIn(said, why_nothing(selected, Shard(2, 4)))
                self.assertIs(nothing_code(selected), code)

    def test_expressions_of_pytest(self) -> None:
        """Who gives ``-k`` one of pytest's expressions is told so; the words alone are a part of a name."""
        for keyword, told in (
            ("test_a or test_b", True),
            ("T and test_a", True),
            ("not test_a", True),
            ("test_not or_and", False),
            ("test_a[not b]", False),
        ):
            with self.subTest(keyword):
                said = why_nothing(Selected(()), None, keywords=["test_a", keyword])
                self.assertEqual("-k A -k B, or -E 'test(A) | !test(B)'" in said, told)

    def test_files_without_a_test(self) -> None:
        """Where there is no test at all, the first file is named and the others are counted."""
        for names, said in (
            (["test_a.py"], "there is no test in test_a.py; no report is written"),
            (["test_a.py", "b.py", "c.py"], "there is no test in test_a.py and 2 other files;"),
        ):
            with self.subTest(said):
                files = [Path("/somewhere", name) for name in names]
                self.assertIn(said, why_nothing(Selected(()), None, files))


class TakenOverTest(unittest.TestCase):
    """``taken_over``: the records that a resumed run needs not make again."""

    def test_of_its_own_tests_that_ended(self) -> None:
        """Neither another shard's test nor one that was cut short; a run that is not resumed takes none."""
        directory = runs.new_directory(self)
        with Journal(directory / "journal.jsonl") as journal:
            journal.begin(RunInfo(cwd=str(directory), tests=("m.T.test_1", "m.T.test_2")))
            for name, status in (("1", Status.FAILED), ("2", Status.ENDED), ("3", Status.PASSED)):
                journal.add(TestRecord(f"m.T.test_{name}", status))
        self.addCleanup(os.chdir, os.getcwd())
        resumed = invocation("--resume", str(directory))
        self.assertEqual([record.id for record in taken_over(resumed)], ["m.T.test_1"])
        self.assertEqual(taken_over(invocation()), [])


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

    def test_a_module_beside_a_file_of_a_package(self) -> None:
        """The hint about a module that is beside the file, but not on the path, works."""
        package = self.directory / "package"
        package.mkdir()
        for name in ("__init__", "helper"):
            (package / f"{name}.py").touch()
        write_module(package, "test_x", "import helper\n" + GOOD)
        run = self.run_tests("package/test_x.py")
        self.assertEqual((run.code, run.statuses.get("test_x")), (1, "error"), run.err)
        self.assertIn(f"helper.py is beside it, in a package: run with PYTHONPATH={package}", run.out)
        run = self.run_tests("package/test_x.py", PYTHONPATH=str(package))
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


if __name__ == "__main__":
    unittest.main()
