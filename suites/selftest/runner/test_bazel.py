"""Tests that a run does what Bazel asks a test for by environment variables."""

from __future__ import annotations

import math
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.runner import bazel
from suites.selftest.runner.runs import RunnerCase


class DecisionsTest(unittest.TestCase):
    """What follows from which variables."""

    def test_options(self) -> None:
        """Bazel's word counts where the command line has none."""
        environ = {bazel.FILTER: "some", bazel.OUTPUTS: "/out"}
        table: tuple[tuple[dict[str, Any], dict[str, str], dict[str, Any]], ...] = (
            ({}, {}, {}),
            ({}, environ, {"keywords": ["some"], "report_dir": "/out/torch-harness"}),
            ({"keywords": ["mine"], "report_dir": "here"}, environ, {}),
            ({"resume": ""}, environ, {"keywords": ["some"]}),
        )
        for given, variables, expected in table:
            with self.subTest(given=given, variables=variables):
                self.assertEqual(bazel.with_options(given, variables), {**given, **expected})

    def test_unittests_arguments(self) -> None:
        for arguments, environ, expected in (
            (["-v"], {}, ["-v"]),
            (["-v"], {bazel.FILTER: "x"}, ["-v", "-k", "x"]),
            (["-k", "y"], {bazel.FILTER: "x"}, ["-k", "y"]),
        ):
            self.assertEqual(bazel.filter_arguments(arguments, environ), expected)

    def test_time_limit(self) -> None:
        """A twentieth of the time, at most ten seconds, is left for the end of the run."""
        for text, seconds in (("60", 57.0), ("900", 890.0), ("", None)):
            found = bazel.time_limit_s({bazel.IS_BAZEL: "1", bazel.TIMEOUT: text})
            self.assertEqual(found, seconds)
        self.assertIsNone(bazel.time_limit_s({bazel.TIMEOUT: "60"}), "somebody else's variable")
        for text in ("soon", "0", "-1", str(math.inf), "nan"):
            with self.assertRaisesRegex(UsageError, "TEST_TIMEOUT=.*: write a number of seconds"):
                bazel.time_limit_s({bazel.IS_BAZEL: "1", bazel.TIMEOUT: text})

    def test_not_for_tests(self) -> None:
        """A run that a test starts does not write this run's files, nor leaves tests out."""
        ours = dict.fromkeys((bazel.FILTER, bazel.OUTPUTS, bazel.XML, bazel.TIMEOUT), "x")
        self.assertEqual(bazel.without_bazel({**ours, "HOME": "h"}), {"HOME": "h"})


class RunTest(RunnerCase):
    """A run as Bazel starts it."""

    TESTS = """
        class T(unittest.TestCase):
            def test_one(self): self.assertNotIn("XML_OUTPUT_FILE", os.environ)
            def test_two(self): threading.Event().wait()
            def test_three(self): pass
        """

    def run_by_bazel(self, **variables: str) -> int:
        outputs, temporary = self.directory / "outputs", self.directory / "tmp"
        for made in (outputs, temporary):
            made.mkdir(exist_ok=True)
        environ = {"BAZEL_TEST": "1", "HARNESS_STATE_DIR": "", "TEST_TMPDIR": str(temporary)}
        environ |= {"TEST_UNDECLARED_OUTPUTS_DIR": str(outputs), "XML_OUTPUT_FILE": str(self.xml)}
        return self.run_tests("test_b", "-j", "1", **environ, **variables).code

    @property
    def xml(self) -> Path:
        return self.directory / "test.xml"

    def test_files_and_filter(self) -> None:
        """The run's files are where Bazel collects them, and nothing is written elsewhere."""
        self.write("test_b", self.TESTS)
        self.assertEqual(self.run_by_bazel(TESTBRIDGE_TEST_ONLY="test_one"), 0)
        cases = [case.get("name") for case in ElementTree.parse(self.xml).iter("testcase")]
        self.assertEqual(cases, ["test_one"])
        self.assertTrue((self.directory / "outputs" / "torch-harness" / "results.jsonl").exists())
        self.assertTrue((self.directory / "tmp" / ".harness").is_dir())
        self.assertFalse((self.directory / ".harness").exists())

    def test_time_limit(self) -> None:
        """A run that takes too long is ended before Bazel ends it, with reports and stacks."""
        self.write("test_b", self.TESTS)
        self.assertEqual(self.run_by_bazel(TEST_TIMEOUT="5"), 130)
        cases = {case.get("name"): case for case in ElementTree.parse(self.xml).iter("testcase")}
        self.assertIn("in test_two", cases["test_two"].findtext("error") or "")


class ModuleTest(RunnerCase):
    """A test module that Bazel runs by itself."""

    def test_filter(self) -> None:
        self.write("test_b", RunTest.TESTS + "\n        from harness import run_tests\n        run_tests()\n")
        done = self.run_module("test_b", TESTBRIDGE_TEST_ONLY="test_three")
        self.assertIn("Ran 1 test", done)

    def run_module(self, name: str, **variables: str) -> str:
        """Runs a module as a script, and returns what it prints."""
        environ = self.environ(PYTHONPATH=str(Path(__file__).parents[3]), **variables)
        done = subprocess.run(
            [sys.executable, f"{name}.py"],
            cwd=self.directory,
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stderr


if __name__ == "__main__":
    unittest.main()
