"""Tests the log of a test's outcomes, which all processes read in one order."""

from __future__ import annotations

import json
import threading
import unittest

from harness import RankOutcome, Status
from harness.communication_call import Call, Signature, to_json
from harness.outcomes import ErrorInfo
from harness.ranks.external.outcome_log import LoggedOutcome, OutcomeLog
from suites.selftest.ranks.external.bodies import new_store


class OutcomeLogTest(unittest.TestCase):
    """The log of two processes, each of which has two clients of one store."""

    def setUp(self) -> None:
        self.store = new_store()
        clients = [self.store.clone() for _ in range(4)]
        self.logs = [OutcomeLog(clients[n], clients[n + 1], "log/a test#1") for n in (0, 2)]

    def test_one_order(self) -> None:
        """Outcomes that all processes append at the same time are read in the same order by all."""
        words = [[RankOutcome(rank, Status.PASSED, note=str(n)) for n in range(20)] for rank in (0, 1)]

        def append(rank: int) -> None:
            for word in words[rank]:
                self.logs[rank].append(word)

        threads = [threading.Thread(target=append, args=(rank,)) for rank in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        read: list[list[RankOutcome]] = []
        for log in self.logs:
            found = [log.read(number, 10.0) for number in range(40)]
            read.append([each.outcome for each in found if each is not None])
        self.assertEqual((len(read[0]), read[0]), (40, read[1]))
        for rank in (0, 1):
            self.assertEqual([o for o in read[0] if o.rank == rank], words[rank])

    def test_nothing_there(self) -> None:
        """Without an outcome it is None: when the time is over, or at once when it is woken."""
        self.assertIsNone(self.logs[0].read(0, 0.0))
        wake = threading.Event()
        wake.set()
        self.assertIsNone(self.logs[0].read(0, 1e6, wake))

    def test_lost(self) -> None:
        """That a rank is lost to later tests is read as it was appended."""
        gone = RankOutcome(1, Status.CRASHED)
        self.logs[0].append(gone, lost=True)
        self.assertEqual(self.logs[1].read(0, 10.0), LoggedOutcome(gone, lost=True))

    def test_after_a_proof(self) -> None:
        """A rank that was proven to be stuck is deadlocked, though its connection was closed meanwhile."""
        call = Call(Signature("barrier", "0", members=(0, 1)), 1, 1, 1.0, 1.0)
        told = {"1": json.dumps([1, [to_json(call)]])}
        self.store.set("log/a test#1/deadlocked", json.dumps([1, told]))
        closed = ErrorInfo("RuntimeError", "Connection closed", "")
        for number, (rank, status, error, expected) in enumerate(
            (
                (1, Status.ERROR, closed, Status.DEADLOCKED),
                (1, Status.PASSED, None, Status.DEADLOCKED),
                (1, Status.CRASHED, None, Status.CRASHED),
                (0, Status.ERROR, closed, Status.ERROR),
            )
        ):
            with self.subTest(rank=rank, status=status):
                self.logs[0].append(RankOutcome(rank, status, error=error, note=str(number)))
                word = self.logs[1].read(number, 10.0)
                assert word is not None
                self.assertEqual(word.outcome.status, expected)
                deadlocked = expected is Status.DEADLOCKED
                self.assertEqual(word.outcome.error, None if deadlocked else error)
                self.assertEqual([each.number for each in word.outcome.calls], [1] if deadlocked else [])

    def test_last_test(self) -> None:
        """What a rank began last, for messages about one that is gone."""
        self.assertEqual(self.logs[0].last_test_of(1), "it has begun no test")
        self.store.set("at/1", "x.T.test_a")
        self.assertEqual(self.logs[0].last_test_of(1), "the last test that it began is x.T.test_a")


if __name__ == "__main__":
    unittest.main()
