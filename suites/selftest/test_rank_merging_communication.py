"""Tests what the communication of ranks adds to a test's verdict."""

from __future__ import annotations

import unittest
from dataclasses import replace

from harness.communication.analysis.checks import Check, Finding
from harness.communication_call import Call, Kind, Signature
from harness.outcomes import (
    ErrorInfo,
    RankOutcome,
    Status,
)
from harness.rank_merging import merge, with_communication
from suites.selftest.outcomes_of_ranks import (
    C,
    E,
    F,
    P,
    S,
    T,
    X,
    rank,
)


class CommunicationTest(unittest.TestCase):
    """What ranks' communication adds to the verdict."""

    def waits(self, number: int, status: Status = Status.DEADLOCKED) -> RankOutcome:
        """A rank that waits in the barrier of ranks 0 and 1."""
        call = Call(Signature("barrier", "0", members=(0, 1), default=True), 1, 1, 1.0, 1.0)
        return rank(number, status, calls=(call,))

    def reduces(self, number: int, op: str, status: Status = P) -> RankOutcome:
        """A rank that has reduced by an operation."""
        signature = Signature("all_reduce", "0", members=(0, 1, 2), default=True, reduce_op=op)
        return rank(number, status, calls=(Call(signature, 1, 1, 1.0, 1.0, 2.0),))

    def test_who_left(self) -> None:
        """A rank that passed may be the cause of a deadlock, and of a hang."""
        for status in (Status.DEADLOCKED, Status.TIMED_OUT):
            merged = merge([rank(0, P), self.waits(1, status)])
            self.assertEqual((merged.status, merged.root_cause), (status, 0))
            self.assertEqual(merged.reason, "rank 0 left the test; rank 1 waits in barrier #1")

    def test_elsewhere(self) -> None:
        """A rank that others wait for is told by where it is."""
        stack = 'Thread 0x1 (most recent call first):\n  File "/home/me/t.py", line 7 in spin\n'
        merged = merge([rank(0, T, stack=stack), self.waits(1, T)])
        self.assertEqual(merged.root_cause, 0)
        self.assertIn("rank 0 never came to barrier #1: it is at t.py:7 in spin", merged.reason)

    def test_an_error_comes_before(self) -> None:
        """A rank that has said why it failed is the cause, whoever waits for it."""
        merged = merge([self.waits(0), rank(1, E, order=5)])
        self.assertEqual((merged.status, merged.root_cause), (E, 1))

    def test_a_refused_message(self) -> None:
        """A rank whose message was refused tells of its own error, since no peer can have been the reason."""
        message = Signature("recv", "0", Kind.RECEIVE, (0, 1), peer=1)
        refused = Call(message, started_s=1.0, ended_s=1.0, raised=True, refused=True)
        merged = merge([rank(0, E, calls=(refused,)), rank(1, P)])
        self.assertEqual((merged.status, merged.root_cause), (E, 0))
        self.assertTrue(merged.reason.startswith("rank 0 raised"), merged.reason)

    def test_a_remote_call_that_failed(self) -> None:
        """A rank that lost the worker it asked is not to blame; what a remote function raised is as it is."""
        joined = Call(
            Signature("init_rpc", kind=Kind.WORKERS, key="w1", workers=2), started_s=1.0, ended_s=2.0
        )
        asked = Call(Signature("rpc_sync", kind=Kind.ANSWER, key="w1"), 1, 1, 3.0, 3.0, 4.0, raised=True)
        left = rank(1, P, calls=(joined,))
        lost = ErrorInfo("RuntimeError", "eof (this error originated at tensorpipe/x.cc:5)", "")
        merged = merge([rank(0, E, calls=(asked,), error=lost), left])
        told = "rank 1 left the test after init_rpc; rank 0 waits in rpc_sync to w1; rank 0 raised"
        self.assertTrue(merged.reason.startswith(told), merged.reason)
        raised = ErrorInfo("ValueError", "On WorkerInfo(id=1, name=w1): ValueError", "")
        merged = merge([rank(0, E, calls=(asked,), error=raised), left])
        self.assertTrue(merged.reason.startswith("rank 0 raised"), merged.reason)

    def test_a_wait_that_timed_out(self) -> None:
        """Who gave up a wait with a timeout is not to blame, unless that is not why it failed."""
        handle = replace(self.waits(0).calls[0], waiting_s=None, own_work=True)
        gave_up = ErrorInfo("RuntimeError", "Operation timed out!", "")
        merged = merge([rank(0, E, calls=(handle,), error=gave_up), rank(1, P)])
        self.assertEqual(merged.root_cause, 1)
        told = (
            "rank 1 left the test; rank 0 waits in barrier #1; rank 0 raised: RuntimeError: Operation timed"
        )
        self.assertTrue(merged.reason.startswith(told), merged.reason)
        for calls, error in (
            ((handle,), ErrorInfo("RuntimeError", "disk full", "")),
            ((replace(handle, ended_s=2.0),), gave_up),
            ((), gave_up),
        ):
            merged = merge([rank(0, E, calls=calls, error=error), rank(1, P)])
            self.assertTrue(merged.reason.startswith("rank 0 raised"), merged.reason)

    def test_a_skip_beside_those_that_wait(self) -> None:
        """What the ranks wait in that were ended for the skip of another one."""
        barrier = Signature("barrier", "0", members=(0, 1, 2), default=True)
        waits = Call(barrier, started_s=1.0, waiting_s=1.0, place="t.py:5 in test_x")
        merged = merge([rank(0, S), *(rank(number, X, calls=(waits,)) for number in (1, 2))])
        self.assertIn(
            "(ranks 1, 2 wait in barrier #1 of the default group (t.py:5 in test_x))", merged.reason
        )

    def test_the_rank_that_differs(self) -> None:
        """A crash in a call in which another rank differs is that rank's."""
        sizes = [Signature("all_reduce", "0", members=(0, 1, 2), agreed=str(r == 1)) for r in range(3)]
        calls = [Call(signature, 1, 1, 1.0, 1.0) for signature in sizes]
        merged = merge([rank(2, C, calls=(calls[2],)), *(rank(r, X, calls=(calls[r],)) for r in (0, 1))])
        self.assertEqual((merged.status, merged.root_cause), (C, 1))
        self.assertIn("; rank 2 crashed", merged.reason)

    def test_levels(self) -> None:
        """Arguments that differ are an error, a warning or nothing, by level; other faults warnings."""
        differing = merge([self.reduces(0, "SUM"), self.reduces(1, "SUM"), self.reduces(2, "MAX")])
        rows = ((None, E, 0), ("error", E, 0), ("warn", P, 1), ("off", P, 0))
        for level, status, lines in rows:
            with self.subTest(level=level):
                found = with_communication(differing, level)
                self.assertEqual((found.status, len(found.communication)), (status, lines))
                self.assertEqual(found.root_cause, 2 if status is E else None)
        handle = replace(
            self.reduces(0, "SUM").calls[0], own_work=True, waiting_s=None, ended_s=None, place="t"
        )
        unwaited = merge([rank(0, P, calls=(handle,)), rank(1, P)])
        for level, status in ((None, P), ("warn", P), ("error", E), ("off", P)):
            self.assertEqual(with_communication(unwaited, level).status, status, level)

    def test_values(self) -> None:
        """Under "values" wrong numbers are the only errors; of a test that failed they are told beside it."""
        wrong = Finding(Check.VALUES, "rank 2 got 5.0", (2,))
        remark = Finding(Check.REPLICAS, "rank 1 got 5.1", (1,))
        differing = [self.reduces(0, "SUM"), self.reduces(1, "SUM"), self.reduces(2, "MAX")]
        found = with_communication(merge(differing), "values", [wrong, remark])
        self.assertEqual((found.status, found.root_cause, found.reason), (E, 2, "rank 2 got 5.0"))
        self.assertEqual(len(found.communication), 2)
        found = with_communication(merge(differing), "values", [remark])
        self.assertEqual((found.status, len(found.communication)), (P, 2))
        for status in (F, C, T):
            failed = merge([rank(0, status), rank(1, P)])
            found = with_communication(failed, "values", [wrong, remark])
            self.assertEqual((found.status, found.communication), (status, ("rank 2 got 5.0",)))

    def test_beside_a_failure(self) -> None:
        """Of a test that failed anyhow, arguments that differ are told beside the failure."""
        failed = merge([self.reduces(0, "SUM", F), self.reduces(1, "MAX"), self.reduces(2, "SUM")])
        found = with_communication(failed, None)
        self.assertEqual((found.status, found.root_cause), (F, 0))
        self.assertIn("rank 1 reduces with MAX", found.communication[0])


if __name__ == "__main__":
    unittest.main()
