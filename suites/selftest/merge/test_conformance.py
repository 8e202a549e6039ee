"""Tests that the report about a target that shards make together is that of one run."""

from __future__ import annotations

import unittest
from dataclasses import replace

from harness.conformance.document import Conformance, load
from suites.selftest.runner import runs

MODULE = """
    from harness.conformance import cell
    from harness.conformance_features import Feature

    class A(unittest.TestCase):
        def conformance_feature(self):
            return Feature("features", self._testMethodName)

        def test_one(self):
            with cell("all_reduce", dtype="float32"):
                pass

        def test_two(self):
            with cell("all_reduce", dtype="int64"):
                self.assertTrue("MENDED" in os.environ)

        def test_three(self):
            with cell("broadcast", dtype="float32"):
                raise RuntimeError("as it should")

        def test_four(self):
            pass
"""


class MergedTest(runs.RunnerCase):
    """``torch-harness merge`` beside a run that is not split."""

    def setUp(self) -> None:
        super().setUp()
        self.write("fake", MODULE)

    def report(self, name: str, *argv: str, **variables: str) -> Conformance:
        """The report of a run."""
        self.run_tests("--report", "conformance", "--report-dir", name, "fake.py", *argv, **variables)
        return load(self.directory / name)

    def merge(self, *names: str) -> runs.Finished:
        """Merges the runs of these names into ``merged``."""
        return self.run_tests("merge", *names, "--report-dir", "merged")

    def test_shards(self) -> None:
        """Cells, features and tests of all shards are there, and a difference to one run is none."""
        whole = self.report("whole")
        for number in ("1", "2"):
            self.report(number, "--shard", f"{number}/2")
        done = self.merge("1", "2")
        self.assertEqual(done.code, 1, done.err)
        found = load(self.directory / "merged")
        self.assertEqual(replace(found, rerun={}), replace(whole, rerun={}))
        self.assertEqual(found.rerun.keys(), whole.rerun.keys())
        self.assertEqual(len(found.matrix.cells), 3 + 4)
        self.assertEqual(found.left_out.tests, frozenset())
        self.assertEqual(len(load(self.directory / "1").left_out.tests), 2)
        for file in ("conformance.html", "conformance.md"):
            self.assertTrue((self.directory / "merged" / file).is_file())

    def test_newest_attempt(self) -> None:
        """Of a test that ran again the cells of the newer run count."""
        self.report("old")
        self.report("new", MENDED="1")
        self.merge("old", "new")
        states = {str(each): each.state.value for each in load(self.directory / "merged").matrix.cells}
        self.assertEqual(states["fake all_reduce (dtype=int64, world_size=1)"], "right")

    def test_without_reports(self) -> None:
        """Runs without a report about a target have none together."""
        self.run_tests("--report-dir", "plain", "fake.py")
        self.merge("plain")
        self.assertFalse((self.directory / "merged" / "conformance.json").exists())


if __name__ == "__main__":
    unittest.main()
