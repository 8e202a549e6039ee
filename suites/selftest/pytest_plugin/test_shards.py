"""Tests the plugin's shards: which one is wanted, and that shards of real runs are disjoint and complete."""

from __future__ import annotations

import json
import unittest
from collections import Counter

from harness.errors import UsageError
from harness.pytest_plugin.shards import wanted_shard
from harness.runner.selection.shard_variables import Shard
from suites.selftest.pytest_plugin.runs import Finished, PytestCase

GITLAB = {"CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "3"}
TESTS = """
@pytest.mark.parametrize("n", range(7))
def test_function(n): pass

class TestPlain:
    def test_method(self): pass

class T(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): pass
"""
OF_HARNESS = """
from harness import slow_test

class H(MultiProcessTestCase):
    world_size = 2

    def test_c(self): pass

    @slow_test
    def test_d(self): pass
"""


class WantedTest(unittest.TestCase):
    """``wanted_shard``, which asks option and environment."""

    def test_table(self) -> None:
        """The option always holds, the environment only where tests of the harness are."""
        for option, environ, ours, expected in (
            (None, {}, True, None),
            (None, GITLAB, True, Shard(2, 3)),
            (None, GITLAB, False, None),
            ("1/2", GITLAB, False, Shard(1, 2)),
            ("1/2", {**GITLAB, "SHARD_NUMBER": "1", "NUM_TEST_SHARDS": "3"}, True, Shard(1, 2)),
        ):
            with self.subTest(option=option, environ=environ, ours=ours):
                self.assertEqual(wanted_shard(option, environ, ours=ours), expected)

    def test_errors(self) -> None:
        """No shard, and variables that contradict each other."""
        with self.assertRaisesRegex(UsageError, "--shard '3'"):
            wanted_shard("3", {}, ours=False)
        with self.assertRaisesRegex(UsageError, "unset one of the two pairs"):
            wanted_shard(None, {**GITLAB, "SHARD_NUMBER": "1", "NUM_TEST_SHARDS": "3"}, ours=True)


class RunsTest(PytestCase):
    """Shards of real runs."""

    def ids(self, *arguments: str, **variables: str) -> list[str]:
        """Returns the collected ids."""
        return self.collected(*arguments, **variables).ids

    def collected(self, *arguments: str, **variables: str) -> Finished:
        """Collects and runs nothing."""
        return self.pytest("--collect-only", "-q", *arguments, **variables)

    def test_disjoint_and_complete(self) -> None:
        """Each test is in one shard, also without any of the harness; the environment counts only with it."""
        self.write("test_plain.py", TESTS)
        everything = self.ids()
        self.assertEqual(len(everything), 10)
        shards = [self.collected("--shard", f"{n}/2") for n in (1, 2)]
        self.assertEqual(Counter(each for shard in shards for each in shard.ids), Counter(everything))
        for shard in shards:
            self.assertIn(f"{10 - len(shard.ids)} deselected", shard.out)
        self.assertEqual(self.ids(**GITLAB), everything)
        self.write("test_ranks.py", OF_HARNESS)
        everything = self.ids()
        parts = [each for n in "123" for each in self.ids(CI_NODE_INDEX=n, CI_NODE_TOTAL="3")]
        self.assertEqual(Counter(parts), Counter(everything))

    def test_errors(self) -> None:
        """Contradictions and a wrong file are one line and exit code 4, in workers too."""
        self.write("test_ranks.py", OF_HARNESS)
        wrong = {**GITLAB, "SHARD_NUMBER": "1", "NUM_TEST_SHARDS": "3"}
        for arguments, variables, said in (
            (["--shard=5/3"], {}, "shard 5/3"),
            (["--shard=1/2", "--shard-timings=no"], {}, "no such file"),
            (["-n1"], wrong, "unset one of the two pairs"),
        ):
            with self.subTest(arguments):
                run = self.pytest(*arguments, **variables)
                self.assertEqual(run.code, 4, run.out)
                (line,) = [line for line in run.out.splitlines() if said in line]
                self.assertTrue(line.startswith("ERROR: "), run.out)

    def test_after_selection(self) -> None:
        """What ``-k`` and ``-m`` leave is shared out, whatever the tests that they leave out take."""
        self.write("pytest.ini", "[pytest]\nmarkers = wanted: x\n")
        body = """
        @pytest.mark.wanted
        @pytest.mark.parametrize("n", range(4))
        def test_wanted(n): pass
        def test_long(): pass
        """
        self.write("test_it.py", body)
        seconds = {"test_it.test_long": 100.0, **{f"test_it.test_wanted[{n}]": 1.0 for n in range(4)}}
        times = {"version": 1, "tests": seconds, "fixtures": {}}
        (self.project / "times.json").write_text(json.dumps(times))
        for choice in ("-kwanted", "-mwanted"):
            with self.subTest(choice):
                shards = [self.ids(choice, "--shard-timings=times.json", f"--shard={n}/2") for n in (1, 2)]
                self.assertEqual(list(map(len, shards)), [2, 2], shards)

    def test_timings_and_workers(self) -> None:
        """Recorded times decide; workers select the same; a shard without tests is no failure."""
        self.write("test_plain.py", TESTS)
        seconds = {"test_plain.T.test_a": 100.0, "test_plain.T.test_b": 0.1, "test_plain.TestPlain.x": 0.1}
        seconds |= {f"test_plain.test_function[{n}]": 0.1 for n in range(7)}
        times = {"version": 1, "tests": seconds, "fixtures": {}}
        (self.project / "times.json").write_text(json.dumps(times))
        arguments = ("--shard-timings=times.json", "--shard=1/2")
        run = self.pytest(*arguments, "-n2", "-rA")
        self.assertEqual((run.code, run.counts), (0, {"passed": 1}), run.out)
        self.assertIn("PASSED test_plain.py::T::test_a", run.out)
        for more in ((), ("-n2",)):
            run = self.pytest("--shard=2/2", "test_plain.py::T::test_a", *more)
            self.assertEqual(run.code, 0, run.out)


if __name__ == "__main__":
    unittest.main()
