"""Tests whole runs of the command: bad input, --help, --list, shards, settings and files of a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

from harness.conformance.document import dumps
from harness.conformance.matrix import State
from suites.selftest.conformance.samples import cell, report
from suites.selftest.runner.runs import PATIENCE_S, RunnerCase

GOOD = "class T(unittest.TestCase):\n    def test_1(self): pass\n    def test_2(self): pass\n"


class HelpTest(unittest.TestCase):
    """The command with --help."""

    def test_light(self) -> None:
        """Asking for help imports neither torch nor a reporter nor the rest of the runner."""
        code = (
            "import sys\nfrom harness.runner.cli import main\n"
            "try: main(['--help'])\nexcept SystemExit as e: assert not e.code\n"
            "heavy = {'torch', 'numpy', 'rich', 'jinja2', 'unittest', 'harness.runner.command'}\n"
            "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
        )
        root = Path(__file__).resolve().parents[3]
        subprocess.run([sys.executable, "-c", code], cwd=root, check=True, stdout=subprocess.DEVNULL)


class RunTest(RunnerCase):
    """Whole invocations of the command."""

    def test_bad_input(self) -> None:
        """Bad input gives exit code 2, one line on standard error and nothing on standard output."""
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
        """A selection without tests gives exit code 5 and says so."""
        self.write("test_g", GOOD)
        for argv in (["test_g", "-k", "nothing"], ["test_g", "-k", "nothing", "--shard", "3/3"]):
            with self.subTest(argv=argv):
                run = self.run_tests(*argv)
                self.assertEqual(run.code, 5)
                self.assertIn("nothing to run", run.err)

    def test_a_file_without_tests(self) -> None:
        """A file without tests is named, and leaves no directory of reports."""
        self.write("test_g", GOOD)
        self.write("test_none", "class T(unittest.TestCase):\n    pass\n")
        for argv, said in (
            (["test_none.py"], "there is no test in test_none.py;"),
            (["test_none.py", "--drop-in"], "there is no test in test_none.py;"),
            (["test_g", "-k", "nothing"], "no test is selected,"),
            (
                ["test_g", "-k", "nothing or test_1"],
                "no test is selected, and no report is written; -k takes",
            ),
        ):
            with self.subTest(argv=argv):
                run = self.run_tests(*argv, "--report-dir", "reports")
                self.assertEqual((run.code, run.out), (5, ""))
                self.assertIn(f"nothing to run: {said}", run.err)
                self.assertFalse((self.directory / "reports").exists())

    def test_an_empty_shard(self) -> None:
        """An empty shard is no failure, because the other shards run all tests."""
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

    def test_list(self) -> None:
        """--list prints an id a line, --json more; a broken module is reported and stops no others."""
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
        self.assertIn("\ntest_bad\n", f"\n{run.out}")
        self.assertIn("no_such_module", run.err)

    def test_list_to_a_full_disk(self) -> None:
        """A list that cannot be written is one line of an error and exit code 3."""
        self.write("test_g", GOOD)
        with open("/dev/full", "w") as full:
            code, err = self.run_into(full.fileno(), "test_g", "--list")
        self.assertEqual((code, err.count("\n")), (3, 1), err)
        said = "the harness failed: standard output cannot be written: No space left on device"
        self.assertIn(said, err)

    def test_output_without_a_reader(self) -> None:
        """What nobody reads ends without a word, with the code of a tool that SIGPIPE ends."""
        self.write("test_g", GOOD)
        (self.directory / "old.json").write_text(dumps(report(cell(State.RIGHT))), encoding="utf-8")
        (self.directory / "moved.py").write_text(
            "from torch.testing._internal.common_utils import TestCase\n"
        )
        for argv in (
            ["test_g", "--list"],
            ["test_g", "--list", "--json"],
            ["--help"],
            ["conformance", "diff", "old.json", "old.json"],
            ["conformance", "diff", "--help"],
            ["migrate", "--dry-run", "moved.py"],
            ["migrate", "--help"],
            ["run", "--help"],
        ):
            with self.subTest(argv):
                self.assertEqual(self.run_without_a_reader(*argv), (141, ""))

    def test_errors_without_a_reader(self) -> None:
        """A wrong command line is one, whether or not anybody reads standard output."""
        for argv in (["--no-such-option"], ["migrate"], ["conformance", "diff"], ["run"]):
            with self.subTest(argv):
                code, err = self.run_without_a_reader(*argv)
                self.assertEqual(code, 2)
                self.assertIn("error: ", err)

    def test_a_run_without_a_reader(self) -> None:
        """The exit code of a run is its verdict, whether or not anybody reads what it prints."""
        self.write("test_g", GOOD)
        self.write("test_f", "class T(unittest.TestCase):\n    def test_1(self): self.fail()\n")
        for name, code in (("test_g", 0), ("test_f", 1)):
            for option in ("-v", "-q"):
                with self.subTest(name, option=option):
                    self.assertEqual(self.run_without_a_reader(name, option), (code, ""))

    def run_without_a_reader(self, *argv: str) -> tuple[int, str]:
        """Runs with a standard output that nobody reads; returns the exit code and standard error."""
        readable, writable = os.pipe()
        os.close(readable)
        with os.fdopen(writable, "wb"):
            return self.run_into(writable, *argv)

    def run_into(self, stdout: int, *argv: str) -> tuple[int, str]:
        """Runs with this standard output, buffered; returns the exit code and standard error."""
        environ = self.environ()
        environ.pop("PYTHONUNBUFFERED", None)
        done = subprocess.run(
            self.command(*argv),
            cwd=self.directory,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return done.returncode, done.stderr

    def test_list_on_a_warm_cache_imports_nothing(self) -> None:
        """A listed module is not imported again until its source changes."""
        self.write("test_g", "open('imported', 'a').write('x')\n" + GOOD)
        trace = self.directory / "imported"
        self.run_tests("test_g", "--list")
        self.run_tests("test_g", "--list")
        self.assertEqual(trace.read_text(), "x")
        self.write("test_g", "open('imported', 'a').write('x')\n" + GOOD + "    def test_3(self): pass\n")
        self.assertIn("test_3", self.run_tests("test_g", "--list").out)
        self.assertEqual(trace.read_text(), "xx")

    def test_shards_are_disjoint_and_complete(self) -> None:
        """Shards are disjoint and complete, and option and environment select the same ones."""
        self.write("test_g", GOOD + "".join(f"    def test_m{i}(self): pass\n" for i in range(7)))
        everything = self.run_tests("test_g", "--list").out.split()
        by_option = [self.run_tests("test_g", "--list", "--shard", f"{i}/3").out.split() for i in (1, 2, 3)]
        self.assertEqual(sorted(i for ids in by_option for i in ids), sorted(everything))
        ci = {"CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "3"}
        self.assertEqual(self.run_tests("test_g", "--list", **ci).out.split(), by_option[1])

    def test_tests_do_not_see_the_shard(self) -> None:
        """Tests do not see the shard variables, because a test module must not be split a second time."""
        self.write(
            "test_g",
            "class T(unittest.TestCase):\n    def test_1(self): assert 'CI_NODE_INDEX' not in os.environ\n",
        )
        run = self.run_tests("test_g", CI_NODE_INDEX="1", CI_NODE_TOTAL="2")
        self.assertEqual((run.code, len(run.records)), (0, 1), run.out)

    def test_settings_reach_the_tests(self) -> None:
        """Options reach the tests as the variables that the library reads."""
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
        """--report-dir gets the run's files, and a second run there keeps the first one's journal."""
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
        """Without a state directory the run goes on without files, says so once, and ends with code 3."""
        self.write("test_g", GOOD)
        (self.directory / "file").touch()
        run = self.run_tests("test_g", HARNESS_STATE_DIR=str(self.directory / "file" / "below"))
        self.assertEqual(run.code, 3)
        self.assertIn("no journal and no reports are written", run.out)
        self.assertIn("2 passed, 0 failed, 0 skipped", run.out)


if __name__ == "__main__":
    unittest.main()
