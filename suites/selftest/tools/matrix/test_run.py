"""Tests the tool that runs the matrix: which pairs its options choose, when it goes on, what it writes."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from harness.errors import UsageError
from harness.runner.exit_codes import ExitCode
from tools.matrix import environments, run, runs
from tools.matrix.environments import RELEASES, Environment, NotMade
from tools.matrix.interpreters import Interpreter

OLD, NEW, OWN = Interpreter("3.10.13", "/old"), Interpreter("3.13.0", "/new"), Interpreter("3.14.1", "/own")


class Chosen(unittest.TestCase):
    """The function ``chosen``, which says which pairs are run."""

    def test_table(self) -> None:
        """A name cuts down to its versions; a path stands alone unless a version is named too."""
        first, middle, last = RELEASES
        everything = [(one.path, release) for one in (OLD, NEW) for release in RELEASES]
        for named, versions, releases, expected in (
            ((), (), (), everything),
            ((), ("3.13",), ("2.11",), [("/new", first)]),
            ((), ("3.10.13", "3.13"), (middle,), [("/old", middle), ("/new", middle)]),
            ((OWN,), (), ("2.13",), [("/own", last)]),
            ((OWN,), ("3.10",), ("2.13",), [("/own", last), ("/old", last)]),
        ):
            with self.subTest(named=named, versions=versions, releases=releases):
                pairs = run.chosen([OLD, NEW], named, versions, releases)
                self.assertEqual([(pair.interpreter.path, pair.release) for pair in pairs], expected)

    def test_versions_that_there_are_not(self) -> None:
        """An unknown version is refused with those that there are; 3.1 is not 3.10."""
        for versions, releases, said in (
            (("3.12",), (), "--python 3.12: there is 3.10.13, 3.13.0"),
            (("3.1",), (), "--python 3.1: "),
            ((), ("2.1",), "--torch 2.1: there is 2.11"),
        ):
            with self.subTest(said), self.assertRaisesRegex(UsageError, said):
                run.chosen([OLD, NEW], (), versions, releases)


class Main(unittest.TestCase):
    """The tool as it is called, with environments and runs that are made up."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.cache = Path(directory.name)
        self.commands: list[list[str]] = []

    def call(self, *arguments: str) -> tuple[int, str]:
        """The exit code, and what was printed."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = run.main(["--cache", str(self.cache), *arguments])
        return code, out.getvalue()

    def pairs(self, codes: Sequence[int], *arguments: str) -> int:
        """The exit code of a call for all releases, of whose runs each ends with the next of ``codes``."""
        left = iter(codes)

        def made(*_: object) -> Environment:
            return Environment(Path("/e"))

        def ran(command: list[str], variables: object) -> int:
            self.commands.append(command)
            return next(left)

        with (
            mock.patch.object(environments, "make", made),
            mock.patch.object(run, "_found", return_value=[NEW]),
            mock.patch.object(runs, "revision", return_value="0123abc"),
            mock.patch.object(run, "ran", ran),
        ):
            return self.call(*arguments)[0]

    def test_a_pair_is_run_whole(self) -> None:
        """Without names the self-tests and the standard suites are run, each with a folder of its own."""
        self.assertEqual(self.pairs([0, 0], "--torch", "2.13"), ExitCode.OK)
        self.assertEqual([command[-1:] for command in self.commands], [["selftest"], [self.commands[1][-1]]])
        self.assertEqual(self.commands[0][:2], ["/e/bin/python", "run_tests.py"])
        noted = [path.read_text() for path in self.cache.rglob("revision.txt")]
        self.assertEqual(noted, ["0123abc", "0123abc"])

    def test_when_it_goes_on(self) -> None:
        """A failure ends it unless it is told to go on, an interrupt always; the worst end is its own."""
        for codes, arguments, expected, begun in (
            ([0, 0, 0], (), ExitCode.OK, 3),
            ([0, 1], (), ExitCode.FAILED, 2),
            ([1, 0, 0], ("--keep-going",), ExitCode.FAILED, 3),
            ([1, -9, 0], ("--keep-going",), ExitCode.BROKEN, 3),
            ([130], ("--keep-going",), ExitCode.INTERRUPTED, 1),
        ):
            with self.subTest(codes):
                self.commands.clear()
                self.assertEqual(self.pairs(codes, *arguments, "--tests", "c10d"), expected)
                self.assertEqual(len(self.commands), begun)

    def test_an_environment_that_cannot_be_made_is_a_row(self) -> None:
        """Its reason is printed, and stands in the list and in the table."""
        with (
            mock.patch.object(environments, "make", side_effect=NotMade("no wheel")),
            mock.patch.object(run, "_found", return_value=[NEW]),
        ):
            code, said = self.call("--torch", "2.13")
            self.assertEqual(code, ExitCode.BROKEN)
            self.assertIn(f"Python 3.13.0, torch {RELEASES[-1]}: no wheel", said)
            listed = self.call("--list")[1]
            self.assertIn("no environment: no wheel", listed)
            self.assertIn("Python 3.12: not on this machine", listed)
            self.assertNotIn("Python 3.12", self.call("--list", "--python", "3.13")[1])
        self.assertRegex(self.call("--rst")[1], rf"(?m)^3\.13\.0 +{RELEASES[-1]} +no wheel")

    def test_arguments_that_are_wrong(self) -> None:
        """A version or a path that there is not ends it with exit code 2."""
        with mock.patch.object(run, "_found", return_value=[NEW]):
            for arguments in (("--python", "3.9"), ("--python", "/bin/false"), ("--torch", "1.0")):
                with self.subTest(arguments):
                    code, said = self.call("--list", *arguments)
                    self.assertEqual(code, ExitCode.USAGE)
                    self.assertTrue(said.startswith("matrix: "), said)

    def test_the_readme_has_a_place_for_the_table(self) -> None:
        """``--readme`` writes the table between the marks, and nothing else changes."""
        tree = self.cache / "tree"
        tree.mkdir()
        marks = ".. matrix begins\n\nold\n\n.. matrix ends\n"
        for text, code in ((f"x\n\n{marks}\ny\n", ExitCode.OK), ("x\n", ExitCode.USAGE)):
            (tree / "README.rst").write_text(text)
            with self.subTest(code), mock.patch.object(run, "TREE", tree):
                self.assertEqual(self.call("--readme")[0], code)
                self.assertNotIn("old", (tree / "README.rst").read_text())
        self.assertEqual((tree / "README.rst").read_text(), "x\n")
        readme = (run.TREE / "README.rst").read_text(encoding="utf-8")
        self.assertEqual(readme.count(".. matrix begins\n"), 1)

    def test_terminated(self) -> None:
        """SIGTERM ends the tool once the run has ended, to which it is passed on."""
        script = self.cache / "run_tests.py"
        script.write_text(
            "import signal, sys\n"
            "signal.signal(signal.SIGTERM, lambda *_: (print('written'), sys.exit(0)))\n"
            "print('runs', flush=True)\n"
            "signal.pause()\n"
        )
        tool = (
            "import os, signal, sys; from tools.matrix import run\n"
            "signal.signal(signal.SIGTERM, signal.default_int_handler)\n"
            "try: run.ran([sys.executable, sys.argv[1]], os.environ)\n"
            "except KeyboardInterrupt: print('interrupted')\n"
        )
        words = [sys.executable, "-c", tool, str(script)]
        with subprocess.Popen(words, cwd=run.TREE, stdout=subprocess.PIPE, text=True) as process:
            self.addCleanup(process.kill)
            assert process.stdout is not None
            self.assertEqual(process.stdout.readline(), "runs\n")
            process.terminate()
            self.assertEqual(process.stdout.read().split(), ["written", "interrupted"])
        self.assertEqual(process.returncode, 0)

    def test_help(self) -> None:
        """``--help`` starts by its path, from any directory."""
        tool = run.TREE / "tools" / "matrix" / "run.py"
        done = subprocess.run(
            [sys.executable, tool, "--help"], cwd=self.cache, capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("exit codes:", done.stdout)
