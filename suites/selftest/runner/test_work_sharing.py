"""Tests when an idle slot takes tests back from a busy worker, by tables and in a run that needs it."""

from __future__ import annotations

import unittest

from harness.outcomes import Status
from harness.record import TestRecord
from harness.runner.timings import BLIND_S, Timings
from harness.runner.unit import of_id
from harness.runner.work_sharing import Pace, number_to_take
from suites.selftest.runner.runs import RunnerCase

A, B, C = (of_id(f"m.T.{name}", "m", fixtures=("m.T",)) for name in "abc")


class DecisionTest(unittest.TestCase):
    """``number_to_take`` and ``Pace``."""

    def test_table(self) -> None:
        """About half goes, less where fixtures are dear, and nothing where that wins too little."""
        for running_s, left, fixtures_s, number in (
            (1.5, [1.5] * 7, 0.0, 4),
            (1.5, [1.5] * 7, 3.0, 3),
            (1.5, [1.5] * 7, 30.0, 0),
            (0.0, [0.05] * 7, 0.0, 0),
            (9.0, [1.0], 0.0, 1),
            (0.0, [1.0], 0.0, 0),
            (9.0, [], 0.0, 0),
        ):
            with self.subTest(running_s=running_s, left=left, fixtures_s=fixtures_s):
                self.assertEqual(number_to_take(running_s, left, fixtures_s), number)

    def test_pace(self) -> None:
        """Recorded times count, else what was seen of the class, else a test that is over its time."""
        pace = Pace(Timings({"m.T.b": 4.0}), [])
        self.assertEqual(pace.left_s(A, 0.0, [B]), [BLIND_S, BLIND_S])
        self.assertEqual(pace.left_s(A, 2.0, [C]), [1.0, 2.0])
        self.assertIsNone(pace.fixtures_s(A))
        pace.add(TestRecord(A.id, Status.PASSED, 3.0, extra={"fixtures_s": {"m.T": 0.5}}))
        self.assertEqual((pace.seconds(C), pace.fixtures_s(C)), (3.0, 0.5))
        self.assertEqual(Pace(Timings({"m.T.b": 4.0}), [B.id]).seconds(B, at_least=9.0), 4.0)


class RunTest(RunnerCase):
    """A run with an idle slot."""

    def test_taken_back(self) -> None:
        """The last test of a class begins in another worker while the first one waits for it."""
        self.write("test_it", """
            class T(unittest.TestCase):
                def test_1(self):
                    while not os.path.exists("done"):
                        time.sleep(0.01)
                def test_2(self):
                    pass
                def test_3(self):
                    open("done", "w").close()
        """)  # fmt: skip
        run = self.run_tests("test_it.py", "--jobs=2")
        self.assertEqual(set(run.statuses.values()), {"passed"}, run.out)
        self.assertEqual(len(run.records), 3)
        self.assertNotEqual(run.of("test_1").worker, run.of("test_3").worker)


if __name__ == "__main__":
    unittest.main()
