"""Tests what a worker's messages mean for its state in the controller, without a worker."""

from __future__ import annotations

import unittest

from harness.errors import ProtocolError
from harness.outcomes import Status
from harness.record import TestRecord, to_json
from harness.report.base import TestStarted
from harness.runner.messages import Began, Debugging, Done, Ended, Fork, Message, Ready
from harness.runner.worker_process.output_capture import marker_line
from harness.runner.workers.events import DebuggerChanged, TestEnded
from harness.runner.workers.worker_messages import heed
from harness.runner.workers.worker_state import Stage
from suites.selftest.runner.workers.test_worker_state import worker


def ended(number: int, test_id: str = "") -> Ended:
    """Returns the message that a test has passed."""
    return Ended(number, to_json(TestRecord(test_id or f"m.T.test_{number}", Status.PASSED, started_s=10.0)))


class HeedTest(unittest.TestCase):
    """``heed`` while the worker runs."""

    def test_one_test(self) -> None:
        """A test begins, with its limit, and ends, with its output; times are those of the controller."""
        running = worker(self, shift_s=0.5)
        started = heed(running, Began(1, 10.0))
        assert isinstance(started, TestStarted)
        self.assertEqual((started.id, started.started_s), ("m.T.test_1", 10.5))
        self.assertEqual((running.deadline_s, len(running.waiting)), (12.5, 0))
        running.splitter.feed(marker_line(running.order.marker, 1) + b"printed\n")
        event = heed(running, ended(1))
        assert isinstance(event, TestEnded)
        self.assertEqual((event.item.seq, event.output, event.record.started_s), (1, "printed\n", 10.5))
        self.assertEqual((running.current, running.deadline_s, running.ended_any), (None, None, True))
        self.assertIsNone(heed(running, Done()))
        self.assertTrue(running.done)

    def test_limit_of_a_test_that_began_unseen(self) -> None:
        """The limit counts from when the controller was there again."""
        running = worker(self)
        heed(running, Began(1, 10.0), since_s=50.0)
        self.assertEqual((running.began_s, running.deadline_s), (10.0, 52.0))

    def test_what_no_worker_sends_now(self) -> None:
        """Another test's beginning or end, and the messages of others, are errors."""
        begun = (Began(1, 10.0),)
        table: tuple[tuple[tuple[Began, ...], Message], ...] = (
            ((), Began(2, 10.0)),
            (begun, Began(2, 10.0)),
            ((), ended(1)),
            (begun, ended(2)),
            (begun, ended(1, "m.T.test_other")),
            ((), Debugging(True)),  # where no debugger was asked for
            ((), Ready()),
        )
        for before, message in table:
            with self.subTest(before=before, message=message):
                running = worker(self, 2)
                for each in before:
                    heed(running, each)
                with self.assertRaises(ProtocolError):
                    heed(running, message)

    def test_debugger(self) -> None:
        """A test has no limit while a debugger has the terminal, and all of it again afterwards."""
        running = worker(self, options=Fork("", [], "", post_mortem=True))
        heed(running, Began(1, 10.0))
        self.assertEqual(heed(running, Debugging(True)), DebuggerChanged(True))
        self.assertIsNone(running.deadline_s)
        self.assertEqual(heed(running, Debugging(False)), DebuggerChanged(False))
        self.assertGreater(running.deadline_s or 0.0, 12.0)


class TooLateTest(unittest.TestCase):
    """``heed`` while the worker is being ended."""

    def test_only_the_doomed_tests_record(self) -> None:
        """The doomed test's own record is kept, and nothing else counts."""
        messages: tuple[tuple[Message, bool], ...] = (
            (ended(1), True),
            (ended(2), False),
            (Began(2, 10.0), False),
            (Done(), False),
        )
        for message, kept in messages:
            with self.subTest(message):
                dying = worker(self, 2)
                heed(dying, Began(1, 10.0))
                dying.stage, dying.doomed = Stage.DUMPING, dying.current
                self.assertIsNone(heed(dying, message))
                self.assertEqual(dying.too_late is not None, kept)
                self.assertEqual((dying.current, dying.done), (dying.doomed, False))


if __name__ == "__main__":
    unittest.main()
