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
from harness.runner.command_line import bazel
from suites.selftest.runner.runs import Finished, RunnerCase


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

    def test_arguments_for_the_runner(self) -> None:
        """What unittest alone has keeps a module with unittest: names, and other options."""
        for arguments, expected in (
            ([], []),
            (["-v", "-f", "-k", "a", "-kb"], ["-v", "--failfast", "-k", "a", "-kb"]),
            (["T.test_one"], None),
            (["-b"], None),
        ):
            self.assertEqual(bazel.runner_arguments(arguments), expected)

    def test_more_than_unittest_does(self) -> None:
        for environ, expected in (({}, False), ({bazel.FILTER: "x"}, False), ({bazel.XML: "x"}, True)):
            self.assertIs(bazel.is_asked_for_more(environ), expected)

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


class BazelCase(RunnerCase):
    """Runs as Bazel starts them."""

    TESTS = """
        class T(unittest.TestCase):
            def test_one(self): self.assertNotIn("XML_OUTPUT_FILE", os.environ)
            def test_two(self): threading.Event().wait()
            def test_three(self): pass
            def test_four(self): self.fail("four")
        """

    def variables(self, **more: str) -> dict[str, str]:
        """What Bazel sets."""
        outputs, temporary = self.directory / "outputs", self.directory / "tmp"
        for made in (outputs, temporary):
            made.mkdir(exist_ok=True)
        environ = {"BAZEL_TEST": "1", "HARNESS_STATE_DIR": "", "TEST_TMPDIR": str(temporary)}
        environ |= {"TEST_UNDECLARED_OUTPUTS_DIR": str(outputs), "XML_OUTPUT_FILE": str(self.xml)}
        return {**environ, "TEST_TARGET": "//a:test_b", "TEST_SRCDIR": "/gone", **more}

    @property
    def xml(self) -> Path:
        return self.directory / "test.xml"

    def cases(self) -> dict[str | None, ElementTree.Element]:
        """The tests of the JUnit file that Bazel has asked for."""
        return {case.get("name"): case for case in ElementTree.parse(self.xml).iter("testcase")}


class RunTest(BazelCase):
    """A run by ``run_tests.py``."""

    def run_by_bazel(self, **variables: str) -> Finished:
        return self.run_tests("test_b", "-j", "1", **self.variables(**variables))

    def test_files_and_filter(self) -> None:
        """The run's files are where Bazel collects them, and nothing is written elsewhere."""
        self.write("test_b", self.TESTS)
        self.assertEqual(self.run_by_bazel(TESTBRIDGE_TEST_ONLY="test_one").code, 0)
        self.assertEqual([*self.cases()], ["test_one"])
        self.assertTrue((self.directory / "outputs" / "torch-harness" / "results.jsonl").exists())
        self.assertTrue((self.directory / "tmp" / ".harness").is_dir())
        self.assertFalse((self.directory / ".harness").exists())

    def test_time_limit(self) -> None:
        """A run that takes too long is ended before Bazel ends it, with reports and stacks."""
        self.write("test_b", self.TESTS)
        done = self.run_by_bazel(TEST_TIMEOUT="5", TESTBRIDGE_TEST_ONLY="T.test_t")
        self.assertEqual(done.code, 130)
        self.assertIn("in test_two", self.cases()["test_two"].findtext("error") or "")
        self.assertIn("interrupted; go on with: bazel test //a:test_b\n", done.out)

    def test_commands(self) -> None:
        """What failed runs again by Bazel's command: its sandbox is gone after the test."""
        self.write("test_b", self.TESTS)
        done = self.run_by_bazel(TESTBRIDGE_TEST_ONLY="test_four", HARNESS_SEED="7")
        again = "bazel test //a:test_b --test_env=HARNESS_SEED=7 --test_filter=T.test_four"
        for line in (f"reproduce: {again}", f"rerun what failed: {again}"):
            self.assertIn(f"{line}\n", done.out)


class ModuleTest(BazelCase):
    """A test module that Bazel runs by itself."""

    END = """
        if __name__ == "__main__":
            from harness import run_tests
            run_tests()
        """

    def setUp(self) -> None:
        super().setUp()
        self.write("test_b", self.TESTS + self.END)

    def test_filter(self) -> None:
        done = self.run_module("test_b", TESTBRIDGE_TEST_ONLY="test_three")
        self.assertIn("Ran 1 test", done)

    def test_junit_file(self) -> None:
        """It has the tests of the shard, as by ``run_tests.py``."""
        shards = set()
        for index in "01":
            shard = {"TEST_SHARD_INDEX": index, "TEST_TOTAL_SHARDS": "2", "TESTBRIDGE_TEST_ONLY": "*e"}
            self.run_module("test_b", **self.variables(**shard))
            shards.add(tuple(self.cases()))
        self.assertEqual(shards, {("test_one",), ("test_three",)})

    def run_module(self, name: str, **variables: str) -> str:
        """Runs a module as a script, and returns what it prints."""
        environ = self.environ(PYTHONPATH=str(Path(__file__).parents[4]), **variables)
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
