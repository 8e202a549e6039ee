"""Tests when an idle slot takes tests back from a busy worker, by tables and in a run that needs it."""

from __future__ import annotations

import unittest
from collections import deque
from unittest import mock

from harness.outcomes import Status
from harness.record import TestRecord
from harness.runner.messages import Item
from harness.runner.scheduling.plan import Attempt
from harness.runner.scheduling.timings import BLIND_S, Timings
from harness.runner.scheduling.unit import of_id
from harness.runner.scheduling.work_sharing import (
    LOOK_S,
    START_S,
    WARM_UP_S,
    Pace,
    WorkSharing,
    number_to_take,
)
from harness.runner.worker_process.warm_up import MARK
from suites.selftest.runner.runs import RunnerCase

A, B, C = (of_id(f"m.T.{name}", "m", fixtures=("m.T",)) for name in "abc")
OTHER = of_id("m.U.a", "m")


class DecisionTest(unittest.TestCase):
    """``number_to_take`` and ``Pace``."""

    def test_table(self) -> None:
        """About half goes, less where fixtures are dear, and nothing where that wins too little."""
        for running_s, left, again_s, number in (
            (1.5, [1.5] * 7, START_S, 4),
            (1.5, [1.5] * 7, 3.1, 3),
            (1.5, [1.5] * 7, 30.0, 0),
            (0.0, [0.5] * 24, 3.1, 9),
            (0.0, [0.5] * 18, 3.1, 0),  # would win less than what it costs
            (0.0, [0.05] * 7, START_S, 0),
            (9.0, [1.0], START_S, 1),
            (0.0, [1.0], START_S, 0),
            (9.0, [], START_S, 0),
        ):
            with self.subTest(running_s=running_s, left=left, again_s=again_s):
                self.assertEqual(number_to_take(running_s, left, again_s), number)

    def test_pace(self) -> None:
        """Recorded times count, else what was seen of the class, else a test that is over its time."""
        pace = Pace(Timings({"m.T.b": 4.0}), [])
        self.assertEqual(pace.left_s(A, 0.0, [B]), [BLIND_S, BLIND_S])
        self.assertEqual(pace.left_s(A, 2.0, [C]), [1.0, 2.0])
        self.assertIsNone(pace.fixtures_s(A))
        pace.add(A, TestRecord(A.id, Status.PASSED, 3.0, extra={"fixtures_s": {"m.T": 0.5}}))
        self.assertEqual((pace.seconds(C), pace.fixtures_s(C)), (3.0, 0.5))
        self.assertEqual(pace.seconds(OTHER), 3.0)  # of another class of the module
        self.assertEqual(Pace(Timings({"m.T.b": 4.0}), [B.id]).seconds(B, at_least=9.0), 4.0)

    def test_warm_up(self) -> None:
        """A warm-up and a skip tell nothing of other tests' times; another worker pays the warm-up again."""
        pace = Pace(Timings(), [])
        pace.add(A, TestRecord(A.id, Status.SKIPPED, 0.0))
        self.assertEqual((pace.seconds(C), pace.fixtures_s(OTHER)), (BLIND_S, 0.0))
        pace.add(A, TestRecord(A.id, Status.PASSED, 9.0, extra={MARK: True}))
        self.assertEqual((pace.seconds(C), pace.fixtures_s(OTHER)), (BLIND_S, 0.0))
        pace.add(B, TestRecord(B.id, Status.PASSED, 0.5, extra={"fixtures_s": {"warm up m": 8.5}}))
        pace.add(B, TestRecord(B.id, Status.PASSED, 1.5))
        self.assertEqual((pace.seconds(C), pace.fixtures_s(OTHER)), (1.0, 8.5))

    def test_tells(self) -> None:
        """A test of unknown time tells nothing while it may be the first of its kind, for some seconds."""
        new, warm, seen = (Pace(Timings(), []) for _ in range(3))
        seen.add(A, TestRecord(A.id, Status.PASSED, 1.0))
        warm.add(A, TestRecord(A.id, Status.PASSED, 1.0))
        warm.add(B, TestRecord(B.id, Status.PASSED, 9.0, extra={MARK: True}))
        recorded = Pace(Timings({C.id: 0.1}), [C.id])
        for pace, taken_s, told in (
            (new, 0.0, False),
            (new, WARM_UP_S - 0.1, False),
            (new, WARM_UP_S, True),
            (warm, 0.0, False),
            (warm, WARM_UP_S, True),
            (seen, 0.9, True),
            (seen, 1.1, False),
            (seen, WARM_UP_S, True),
            (recorded, 0.0, True),
            (recorded, 2.0, True),
        ):
            with self.subTest(taken_s=taken_s, told=told):
                self.assertEqual(pace.tells(C, taken_s), told)


class WorkSharingTest(unittest.TestCase):
    """``WorkSharing``: from which workers tests are taken, and when it looks again."""

    def setUp(self) -> None:
        units = {unit.id: unit for unit in (A, B, C)}
        self.sharing = WorkSharing(units, Timings({A.id: 9.0, B.id: 5.0, C.id: 5.0}, fixtures={"m.T": 0.0}))
        items = [Item(number, "m", Attempt(unit.id)) for number, unit in enumerate((A, B, C))]
        self.worker = mock.Mock(waiting=deque(items[1:]), current=items[0], began_s=0.0)
        self.workers, self.queue = mock.Mock(all=(self.worker,)), mock.Mock()

    def looked(self, now_s: float) -> list[list[Item]]:
        """Returns what one look takes."""
        return list(self.sharing.take_back(self.workers, self.queue, now_s))

    def test_no_idle_slot(self) -> None:
        """Nothing is taken and no look is due where no slot is free."""
        self.queue.has_room.return_value = False
        self.assertEqual(self.looked(1.0), [])
        self.worker.take_back.assert_not_called()
        self.assertEqual(self.sharing.next_look_s, float("inf"))

    def test_takes(self) -> None:
        """As many as pay are asked for; the next look is not before its time."""
        self.worker.take_back.return_value = ["its items"]
        self.assertEqual(self.looked(1.0), [["its items"]])
        self.worker.take_back.assert_called_once_with(2)
        self.assertEqual(self.sharing.next_look_s, 1.0 + LOOK_S)
        self.assertEqual(self.looked(1.0 + LOOK_S / 2), [])
        self.assertEqual(self.looked(1.0 + LOOK_S), [["its items"]])

    def test_nothing_known(self) -> None:
        """Nothing is taken while nothing is known, neither before nor in the worker's first test."""
        self.sharing = WorkSharing({unit.id: unit for unit in (A, B, C)}, Timings(fixtures={"m.T": 0.0}))
        self.looked(1.0)
        self.worker.current = None
        self.looked(2.0)
        self.assertEqual(self.worker.take_back.mock_calls, [mock.call(0)] * 2)
        self.worker.current = Item(0, "m", Attempt(A.id))
        self.looked(WARM_UP_S)
        self.worker.take_back.assert_called_with(1)


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
