"""The command line: what it refuses, what it says, what it costs to ask."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import unittest
from pathlib import Path

from harness.errors import UsageError
from harness.runner import exits
from harness.runner.exits import ExitCode
from harness.runner.options import build, parse
from harness.runner.shard import FAMILIES
from harness.settings import VARIABLES
from suites.selftest.runner.runs import RUN_TESTS, RunnerCase, journal_records, run_tests, write_module

GOOD = "class T(unittest.TestCase):\n    def test_1(self): pass\n    def test_2(self): pass\n"


class RefusalTest(unittest.TestCase):
    """What cannot be meant is refused in one line that says what to write."""

    def test_table(self) -> None:
        """Wrong words and numbers."""
        table = [
            (["--isolat"], "did you mean --isolate"),
            (["--job", "2"], "did you mean --jobs"),
            (["--zzz"], "--help lists"),
            (["--jobs", "0"], "whole number from 1"),
            (["--jobs", "many"], "whole number from 1"),
            (["--timeout", "-1"], "seconds above 0"),
            (["--timeout", "nan"], "seconds above 0"),
            (["--seed", "4294967296"], "whole number from 0 to 4294967295"),
            (["--shuffle", "c10d"], "'c10d'"),
            (["--reruns", "x"], "whole number"),
            (["--flaky", "maybe"], "'pass', 'fail'"),
            (["--json"], "goes with --list"),
            (["--until-fail", "--reruns", "1"], "exclude each other"),
            (["--resume=x", "c10d"], "--resume=DIR"),
            (["--resume", "--last-failed"], "exclude each other"),
            (["--pdb", "--pdb-rank", "0"], "exclude each other"),
            (["--pdb-rank", "first"], "whole number"),
        ]
        for argv, wanted in table:
            with self.subTest(argv=argv), self.assertRaises(UsageError) as caught:
                parse(argv)
            self.assertIn(wanted, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))

    def test_words_between_options(self) -> None:
        """Names may stand anywhere."""
        options = parse(["c10d", "-v", "aot", "-k", "x", "--jobs=auto"])
        self.assertEqual((options.names, options.verbose, options.keywords), (["c10d", "aot"], 1, ["x"]))


class HelpTest(unittest.TestCase):
    """--help."""

    def test_complete(self) -> None:
        """Every option, exit code and variable is in it."""
        text = build().format_help()
        for code in ExitCode:
            self.assertRegex(text, rf"(?m)^  {code.value} +\w")
        for variable in VARIABLES:
            self.assertIn(variable.name, text)
        for family in FAMILIES:
            self.assertIn(family.index, text)
        for action in build()._actions:
            self.assertTrue(action.help, action.option_strings)

    def test_light(self) -> None:
        """Asking for help loads neither torch nor a reporter nor the run's machinery."""
        code = (
            "import sys\nfrom harness.runner.cli import main\n"
            "try: main(['--help'])\nexcept SystemExit as e: assert not e.code\n"
            "heavy = {'torch', 'numpy', 'rich', 'jinja2', 'unittest', 'harness.runner.command'}\n"
            "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
        )
        root = Path(__file__).resolve().parents[3]
        subprocess.run([sys.executable, "-c", code], cwd=root, check=True, stdout=subprocess.DEVNULL)


class ExitCodeTest(unittest.TestCase):
    """exits.decide."""

    def test_table(self) -> None:
        """The first that applies: interrupted, failed, broken, nothing."""

        def code(**given: bool | int) -> int:
            plain = {
                "ran": 3,
                "failed": 0,
                "flaky": 0,
                "flaky_fails": False,
                "interrupted": False,
                "broken": False,
            }
            return exits.decide(**{**plain, **given})  # type: ignore[arg-type]  # keyword by keyword

        self.assertEqual(code(), 0)
        self.assertEqual(code(failed=1, broken=True), 1)
        self.assertEqual(code(failed=1, interrupted=True), 130)
        self.assertEqual(code(flaky=1), 0)
        self.assertEqual(code(flaky=1, flaky_fails=True), 1)
        self.assertEqual(code(broken=True), 3)
        self.assertEqual(code(ran=0), 5)

    def test_meanings(self) -> None:
        """Each code has a meaning for --help."""
        self.assertEqual(set(exits.MEANINGS), set(ExitCode))


class RunTest(RunnerCase):
    """Whole invocations."""

    def test_bad_input(self) -> None:
        """Exit code 2, one line on standard error, nothing on standard output."""
        self.write("test_g", GOOD)
        (self.directory / "file").touch()
        table: list[tuple[list[str], dict[str, str], str]] = [
            (["nosuchsuite"], {}, "'nosuchsuite' is no suite"),
            (["test_g.T.test_3"], {}, "test_g has no 'T.test_3'; did you mean"),
            (["no/such/file.py"], {}, "no such file"),
            (["test_g", "--shard", "3/2"], {}, "shard 3/2"),
            (["test_g", "--shard", "one"], {}, "write I/N"),
            (["test_g"], {"SHARD_NUMBER": "1"}, "NUM_TEST_SHARDS"),
            (["test_g"], {"SHARD_NUMBER": "x", "NUM_TEST_SHARDS": "2"}, "SHARD_NUMBER"),
            (["test_g"], {"TEST_SHARD_INDEX": "2", "TEST_TOTAL_SHARDS": "2"}, "TEST_SHARD_INDEX"),
            (["test_g", "--report-dir", "file/below"], {}, "cannot be written"),
            (["test_g", "--timings", "times.json"], {}, "--timings times.json: no such file"),
            (["test_g", "--timings", "file", "--shard", "1/2"], {}, "--timings file: no timings used"),
            (["test_g"], {"HARNESS_TIMEOUT": "soon"}, "HARNESS_TIMEOUT"),
            (["--resume"], {}, "no earlier run"),
            (["--resume=nowhere"], {}, "no run to go on with"),
            (["--last-failed"], {}, "no earlier run"),
        ]
        for argv, variables, wanted in table:
            with self.subTest(argv=argv, variables=variables):
                run = self.run_tests(*argv, **variables)
                self.assertEqual((run.code, run.out), (2, ""))
                self.assertIn(wanted, run.err)
                self.assertEqual(run.err.count("\n"), 1, run.err)

    def test_nothing_to_run(self) -> None:
        """Exit code 5 and why."""
        self.write("test_g", GOOD)
        for argv in (["test_g", "-k", "nothing"], ["test_g", "-k", "nothing", "--shard", "3/3"]):
            with self.subTest(argv=argv):
                run = self.run_tests(*argv)
                self.assertEqual(run.code, 5)
                self.assertIn("nothing to run", run.err)

    def test_an_empty_shard(self) -> None:
        """It is no failure: the other shards run what there is."""
        self.write("test_g", GOOD)
        for argv, variables in (
            (["--shard", "3/3"], {}),
            ([], {"TEST_SHARD_INDEX": "2", "TEST_TOTAL_SHARDS": "3"}),
            (["--shard", "3/3", "--list"], {}),
        ):
            with self.subTest(argv=argv, variables=variables):
                run = self.run_tests("test_g", *argv, **variables)
                self.assertEqual((run.code, run.out), (0, ""))
        self.assertIn("the other shards run all 2 tests", self.run_tests("test_g", "--shard", "3/3").err)

    def test_commands_that_are_shown_work(self) -> None:
        """Also where only a file's path leads to the module, and from where the runner is not."""
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
        """They work for what is inherited from a helper and for what is no identifier, wherever one is."""
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
        """Tests that are made from another file's table change with it."""
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
        """A run has those of now, whatever was listed before: from a data file, or for a variable."""
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

    def test_list(self) -> None:
        """An id a line; --json says more; a broken module is said and is not fatal to the others."""
        self.write("test_g", GOOD)
        run = self.run_tests("test_g", "--list")
        self.assertEqual((run.code, run.out, run.err), (0, "test_g.T.test_1\ntest_g.T.test_2\n", ""))
        self.assertFalse((self.directory / ".harness" / "runs").exists())
        lines = self.run_tests("test_g", "--list", "--json").out.splitlines()
        first = json.loads(lines[0])
        self.assertEqual(first["id"], "test_g.T.test_1")
        self.assertEqual(first["demand"]["ranks"], 1)
        self.assertGreater(first["expected_s"], 0)
        self.write("test_bad", "import no_such_module")
        run = self.run_tests(".", "--list")
        self.assertEqual(run.code, 1)
        self.assertIn("unittest.loader._FailedTest.test_bad\n", run.out)
        self.assertIn("no_such_module", run.err)

    def test_a_module_that_does_not_import(self) -> None:
        """It fails the run, however fine the selection is."""
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
        """The one that is named runs, whatever is known of the other or is found before it."""
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
        """It is an error, not a run of the other's tests."""
        self.write("random", GOOD)
        run = self.run_tests("random.py")
        self.assertEqual((run.code, list(run.statuses.values())), (1, ["error"]), run.out)
        self.assertIn(f"{self.directory / 'random.py'} is the module random, and another file", run.out)

    def test_list_on_a_warm_cache_imports_nothing(self) -> None:
        """What is known is not imported again, until its source changes."""
        self.write("test_g", "open('imported', 'a').write('x')\n" + GOOD)
        trace = self.directory / "imported"
        self.run_tests("test_g", "--list")
        self.run_tests("test_g", "--list")
        self.assertEqual(trace.read_text(), "x")
        self.write("test_g", "open('imported', 'a').write('x')\n" + GOOD + "    def test_3(self): pass\n")
        self.assertIn("test_3", self.run_tests("test_g", "--list").out)
        self.assertEqual(trace.read_text(), "xx")

    def test_shards_are_disjoint_and_complete(self) -> None:
        """By option and by environment."""
        self.write("test_g", GOOD + "".join(f"    def test_m{i}(self): pass\n" for i in range(7)))
        everything = self.run_tests("test_g", "--list").out.split()
        by_option = [self.run_tests("test_g", "--list", "--shard", f"{i}/3").out.split() for i in (1, 2, 3)]
        self.assertEqual(sorted(i for ids in by_option for i in ids), sorted(everything))
        ci = {"CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "3"}
        self.assertEqual(self.run_tests("test_g", "--list", **ci).out.split(), by_option[1])

    def test_tests_do_not_see_the_shard(self) -> None:
        """The controller has cut the run down; a test module must not do it again."""
        self.write(
            "test_g",
            "class T(unittest.TestCase):\n    def test_1(self): assert 'CI_NODE_INDEX' not in os.environ\n",
        )
        run = self.run_tests("test_g", CI_NODE_INDEX="1", CI_NODE_TOTAL="2")
        self.assertEqual((run.code, len(run.records)), (0, 1), run.out)

    def test_settings_reach_the_tests(self) -> None:
        """Options arrive as the variables that the library reads."""
        self.write(
            "test_g",
            """
            class T(unittest.TestCase):
                def test_1(self):
                    names = "SEED", "TIMEOUT", "RANKS", "STRICT"
                    print(*[os.environ["HARNESS_" + n] for n in names], os.environ["PYTORCH_TEST_WITH_SLOW"])
                    print(os.path.basename(os.environ["HARNESS_LOG_DIR"]), os.getcwd())
                    self.fail("look")
            """,
        )
        run = self.run_tests(
            "test_g", "--seed", "5", "--timeout", "9", "--ranks", "threads", "--slow", "--strict"
        )
        self.assertEqual(run.of("test_1").output, f"5 9.0 threads 1 1\nlogs {self.directory}\n")
        self.assertEqual(run.of("test_1").seed, 5)
        self.assertIn("--seed 5 --timeout 9 --ranks threads --slow --strict test_g.T.test_1", run.out)

    def test_report_dir(self) -> None:
        """A directory of the user's own gets the files; a second run there keeps the first one's journal."""
        self.write("test_g", GOOD)
        for _ in range(2):
            run = self.run_tests("test_g", "--report-dir", "reports/here", "--report", "html", "--trace")
            self.assertEqual(run.code, 0, run.err)
        names = {path.name for path in (self.directory / "reports" / "here").iterdir()}
        wanted = {
            "journal.jsonl",
            "journal.previous.jsonl",
            "results.jsonl",
            "junit.xml",
            "report.html",
            "trace.json",
        }
        self.assertLessEqual(wanted, names)

    def test_a_state_directory_that_cannot_be_made(self) -> None:
        """The run goes on without files, says so once, and ends with the code for that."""
        self.write("test_g", GOOD)
        (self.directory / "file").touch()
        run = self.run_tests("test_g", HARNESS_STATE_DIR=str(self.directory / "file" / "below"))
        self.assertEqual(run.code, 3)
        self.assertIn("no journal and no reports are written", run.out)
        self.assertIn("2 passed, 0 failed, 0 skipped", run.out)


if __name__ == "__main__":
    unittest.main()
