"""A test module run by itself: its exit codes, its options, its shard."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import types
import unittest
import unittest.mock
from pathlib import Path

import harness
from harness import module_main
from harness.runner.selection import shard_variables

# Where this process found the harness, for the processes it starts.
SEARCH_PATH = os.pathsep.join([str(Path(harness.__file__).parents[1]), *sys.path])

MODULE = """
    import os, random, unittest
    from harness.module_main import load_tests, run_tests
    from harness.testcase import TestCase

    class T(TestCase):
        def test_pass(self):
            print("drew", random.random(), os.environ.get("EXPECTTEST_ACCEPT"))
        def test_fail(self):
            self.fail("no")
        @unittest.skip("not here")
        def test_skip(self):
            pass

    if __name__ == "__main__":
        run_tests()
"""


class RunTestsTest(unittest.TestCase):
    def run_module(
        self, *arguments: str, body: str = MODULE, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "test_it.py")
            path.write_text(textwrap.dedent(body))
            kept = shard_variables.without_shard(os.environ)
            return subprocess.run(
                [sys.executable, str(path), *arguments],
                env={**kept, "PYTHONPATH": SEARCH_PATH, **environ},
                capture_output=True, text=True, check=False,
            )  # fmt: skip

    def test_exit_codes(self) -> None:
        for arguments, code in (
            (["T.test_pass"], 0),
            (["T.test_skip"], 0),
            ([], 1),
            (["T.test_missing"], 1),
            (["-k", "nothing_like_it"], 5),
            (["--no-such-option"], 2),
            (["--seed", "x", "T.test_pass"], 2),
            (["--help"], 0),
        ):
            with self.subTest(arguments=arguments):
                done = self.run_module(*arguments)
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)

    def test_help_without_a_reader(self) -> None:
        """Help that nobody reads ends without a word; so does that of the drop-in."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "test_it.py")
            path.write_text(textwrap.dedent(MODULE))
            for words in ([str(path), "--help"], ["-m", "harness.dropin", "--help"]):
                with self.subTest(words):
                    readable, writable = os.pipe()
                    os.close(readable)
                    with os.fdopen(writable, "wb"):
                        done = subprocess.run(
                            [sys.executable, *words], env={**os.environ, "PYTHONPATH": SEARCH_PATH},
                            stdout=writable, stderr=subprocess.PIPE, text=True, check=False,
                        )  # fmt: skip
                    self.assertEqual((done.returncode, done.stderr), (141, ""))

    def test_seed(self) -> None:
        drawn = {self.run_module("--seed", seed, "T.test_pass").stdout for seed in ("5", "5", "6")}
        self.assertEqual(len(drawn), 2)
        self.assertIn(self.run_module("T.test_pass", HARNESS_SEED="5").stdout, drawn)

    def test_a_wrong_seed_is_explained(self) -> None:
        done = self.run_module("--seed", "-3")
        self.assertIn("--seed -3: a whole number of 32 bits is needed", done.stderr)

    def test_shard_variables_that_make_no_sense(self) -> None:
        for environ in ({"SHARD_NUMBER": "x", "NUM_TEST_SHARDS": "2"}, {"TEST_SHARD_INDEX": "0"}):
            with self.subTest(environ=environ):
                done = self.run_module(**environ)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
                self.assertIn("test_it.py: error: ", done.stderr)

    def test_shards(self) -> None:
        """Each test is in one shard, whether the module has ``load_tests`` or not; a name is run in any."""
        for imported in ("load_tests, run_tests", "run_tests"):
            for arguments, wanted in (([], 3), (["T.test_pass"], 2)):
                with self.subTest(imported=imported, arguments=arguments):
                    body = MODULE.replace("load_tests, run_tests", imported)
                    counts = [
                        self.run_module(*arguments, body=body, TEST_SHARD_INDEX=index, TEST_TOTAL_SHARDS="2")
                        for index in "01"
                    ]
                    ran = [int(n) for done in counts for n in re.findall(r"(?m)^Ran (\d+) test", done.stderr)]
                    self.assertEqual(sum(ran), wanted, [done.stderr for done in counts])

    def test_accept(self) -> None:
        self.assertTrue(self.run_module("--accept", "T.test_pass").stdout.rstrip().endswith(" 1"))


class ShardTest(unittest.TestCase):
    def setUp(self) -> None:
        self.suite = unittest.TestSuite([unittest.FunctionTestCase(print)])
        clean = shard_variables.without_shard(os.environ)
        patch = unittest.mock.patch.dict(os.environ, clean, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def test_no_shard_leaves_the_suite_alone(self) -> None:
        for environ in ({}, {"SHARD_NUMBER": ""}):
            with self.subTest(environ=environ), unittest.mock.patch.dict(os.environ, environ):
                loaded = module_main.load_tests(unittest.defaultTestLoader, self.suite, None)
                self.assertIs(loaded, self.suite)

    def test_any_variable_asks_the_runner(self) -> None:
        """A family's variables cut the suite, and so do those of one that is added to ``shard_variables``."""
        part = unittest.TestSuite()
        sharding = types.ModuleType("harness.runner.selection.shard_assignment")
        asked = unittest.mock.Mock(return_value=part)
        sharding.filter_suite = asked  # type: ignore[attr-defined]  # it is a stand-in
        selection = types.ModuleType("harness.runner.selection")
        selection.shard_assignment = sharding  # type: ignore[attr-defined]  # as above
        replaced = {"harness.runner.selection": selection}
        added = (
            *shard_variables.FAMILIES,
            shard_variables.Family("New CI", "NEW_CI_PART", "NEW_CI_PARTS", 0),
        )
        families = (*added, shard_variables.SLURM)
        for name in (name for family in families for name in (family.index, family.total)):
            with (
                self.subTest(name=name),
                unittest.mock.patch.object(shard_variables, "FAMILIES", added),
                unittest.mock.patch.dict(sys.modules, replaced),
                unittest.mock.patch.dict(os.environ, {name: "1"}),
            ):
                self.assertIs(module_main.load_tests(unittest.defaultTestLoader, self.suite, None), part)
                asked.assert_called_with(self.suite, os.environ)

    def test_a_class_that_skips_itself_did_run(self) -> None:
        skipped = unittest.TestResult()
        skipped.addSkip(unittest.FunctionTestCase(print), "no device")
        self.assertEqual(module_main.exit_code(skipped, sharded=False), 0)

    def test_an_empty_shard_is_no_failure(self) -> None:
        nothing = unittest.TestResult()
        self.assertEqual(module_main.exit_code(nothing, sharded=True), 0)
        self.assertEqual(module_main.exit_code(nothing, sharded=False), 5)


if __name__ == "__main__":
    unittest.main()
