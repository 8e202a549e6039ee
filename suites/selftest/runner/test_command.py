"""Tests what a whole invocation runs that goes on from the last one, in real processes."""

from __future__ import annotations

import unittest

from suites.selftest.runner.runs import RunnerCase


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


if __name__ == "__main__":
    unittest.main()
