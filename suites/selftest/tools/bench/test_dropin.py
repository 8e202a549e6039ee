"""Tests the drop-in's benchmark: verdicts are written, read, kept and compared; upstream is never run."""

from __future__ import annotations

import io
import tempfile
import unittest
from pathlib import Path

from tools.bench import dropin
from tools.bench.upstream_file import NOT_PASSED, PASSED, SKIPPED, TimedVerdict, read, recording


class Sample(unittest.TestCase):
    """A case with one test for each verdict, which the tests below run; discovery does not find it."""

    def passes(self) -> None:
        pass

    def fails(self) -> None:
        self.fail()

    def breaks(self) -> None:
        raise ValueError

    def skips(self) -> None:
        self.skipTest("")

    @unittest.expectedFailure
    def fails_as_expected(self) -> None:
        self.fail()

    @unittest.expectedFailure
    def passes_unexpectedly(self) -> None:
        pass

    def fails_in_a_subtest(self) -> None:
        for i in range(2):
            with self.subTest(i=i):
                self.assertEqual(i, 1)


EXPECTED = {
    "passes": PASSED,
    "fails": NOT_PASSED,
    "breaks": NOT_PASSED,
    "skips": SKIPPED,
    "fails_as_expected": PASSED,
    "passes_unexpectedly": NOT_PASSED,
    "fails_in_a_subtest": NOT_PASSED,
}


NAMES = ("test_passes", "test_breaks", "test_skips", "test_fails_as_expected", "test_passes_unexpectedly")
SMALL = """
from torch.testing._internal.common_utils import TestCase
import unittest

class Small(TestCase):
    def test_passes(self): pass
    def test_breaks(self): raise ValueError
    def test_skips(self): self.skipTest("")
    @unittest.expectedFailure
    def test_fails_as_expected(self): self.fail()
    @unittest.expectedFailure
    def test_passes_unexpectedly(self): pass

if __name__ == "__main__":
    unittest.main()
"""


class Recording(unittest.TestCase):
    """The result class of ``recording``, and ``read``."""

    def test_every_verdict(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            results = Path(directory, "results")
            runner = unittest.TextTestRunner(stream=io.StringIO(), resultclass=recording(str(results)))
            runner.run(unittest.TestSuite(Sample(name) for name in EXPECTED))
            found = read(results.read_text().splitlines())
        self.assertEqual({v.test.rpartition(".")[2]: v.verdict for v in found}, EXPECTED)
        self.assertTrue(all(v.seconds >= 0 for v in found))


class OfTheRunner(unittest.TestCase):
    """``run_tests.py --drop-in`` on a small file gives the same names and verdicts as the other ways."""

    def test_same_names_and_verdicts(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "small_upstream.py")
            file.write_text(SMALL)
            found = [dropin.play(way, file, 2).by_test() for way in (dropin.RUNNER, "drop-in")]
        self.assertEqual(found[0], {f"Small.{name}": EXPECTED[name[5:]] for name in NAMES})
        self.assertEqual(found[0], found[1])


class Kept(unittest.TestCase):
    """The functions ``save`` and ``load``."""

    def test_round_trip(self) -> None:
        verdicts = {"Case.b": NOT_PASSED, "Case.a": PASSED, "Case.c": SKIPPED}
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "new", "kept.txt")
            dropin.save(path, verdicts, "1.2")
            self.assertEqual(dropin.load(path), verdicts)
            self.assertIn("torch 1.2", path.read_text())


class Comparing(unittest.TestCase):
    """The functions ``differences``, ``sample`` and ``summary``."""

    def test_equal(self) -> None:
        self.assertEqual(dropin.differences({"a": PASSED}, {"a": PASSED}), [])

    def test_each_difference_is_a_line(self) -> None:
        lines = dropin.differences(
            {"a": PASSED, "b": SKIPPED, "c": PASSED}, {"a": SKIPPED, "b": SKIPPED, "d": PASSED}
        )
        self.assertEqual(
            lines,
            [
                "a: upstream passed, drop-in skipped",
                "c: upstream passed, drop-in not run",
                "d: upstream not run, drop-in passed",
            ],
        )

    def test_sample_is_of_tests_that_pass(self) -> None:
        verdicts = {f"t{i:03}": PASSED if i % 2 else SKIPPED for i in range(100)}
        sample = dropin.sample(verdicts)
        self.assertEqual(len(sample), -(-50 // dropin.SAMPLE_STEP))
        self.assertTrue(all(verdicts[test] == PASSED for test in sample))

    def test_summary_counts(self) -> None:
        verdicts = (
            TimedVerdict("a", PASSED, 1.0),
            TimedVerdict("b", SKIPPED, 0.5),
            TimedVerdict("c", PASSED, 0.5),
        )
        line = dropin.summary(dropin.Played("drop-in", 2, 4.0, verdicts))
        self.assertIn("3 tests, 2 passed, 1 skipped, 0 not passed; 4.0 s, 2.0 s of it in tests", line)


if __name__ == "__main__":
    unittest.main()
