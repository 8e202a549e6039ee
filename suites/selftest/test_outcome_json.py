"""A rank's outcome as JSON: every field travels, and what a reader could not work with is refused."""

from __future__ import annotations

import json
import unittest
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from harness import outcome_json
from harness.communication_call import Call, Signature
from harness.outcomes import ErrorInfo, RankOutcome, Status, SubtestOutcome


class RoundTripTest(unittest.TestCase):
    """What is written comes back equal; random outcomes go through it in test_protocol.py."""

    def test_every_field_of_an_outcome_travels(self) -> None:
        """A field that is added to RankOutcome has to be added here; defaults are left out."""
        self.assertEqual(set(outcome_json.outcome_to_json(RankOutcome(0, Status.PASSED))), {"rank", "status"})
        error = ErrorInfo("E", "message", "trace", is_assertion=True, pickled=b"p")
        outcome = RankOutcome(
            1,
            Status.FAILED,
            error=error,
            skip_reason="none",
            subtests=(SubtestOutcome("m", (("i", "1"),), Status.FAILED, error),),
            exit_code=1,
            duration_s=1.5,
            started_s=2.5,
            peak_memory=1,
            output="printed",
            calls=(Call(Signature("all_reduce", "0"), 1, 1, 1.0),),
            stack="stack",
            phase="exit",
            order=1,
            at_s=3.5,
            pid=1,
            accepted=(["text"],),
            note="note",
            log="log",
            left=("thread",),
            warned=("test_x.py:1: UserWarning: odd",),
            groups_begun=1,
            expected=True,
            xfailed=True,
            host="a",
        )
        value = outcome_json.outcome_to_json(outcome)
        self.assertEqual(set(value), {f.name for f in fields(RankOutcome)})
        self.assertEqual(outcome_json.outcome_from_json(json.loads(json.dumps(value))), outcome)

    def test_tuples_stay_tuples(self) -> None:
        """Equality of dataclasses depends on it."""
        outcome = RankOutcome(0, Status.PASSED, accepted=([1, {"a": None}],), subtests=())
        back = outcome_json.outcome_from_json(json.loads(json.dumps(outcome_json.outcome_to_json(outcome))))
        self.assertEqual(back, outcome)
        self.assertIsInstance(back.accepted, tuple)


class RefusalTest(unittest.TestCase):
    """Values that no outcome has."""

    def test_wrong_values(self) -> None:
        """A field of the wrong kind, a sub-test that ended as none does, a missing one."""
        subtest = {"message": None, "params": [["i", "1"]], "status": "passed", "error": None}
        self.assertEqual(outcome_json.subtest_from_json(subtest).params, (("i", "1"),))
        outcome = {"rank": 0, "status": "passed"}
        self.refuses(outcome_json.subtest_from_json, subtest, "status", "crashed")
        self.refuses(outcome_json.subtest_from_json, subtest, "params", [["i", 1]])
        self.refuses(outcome_json.subtest_from_json, subtest, "params", ["i"])
        self.refuses(outcome_json.subtest_from_json, subtest, "message", 1)
        self.refuses(outcome_json.outcome_from_json, outcome, "status", "odd")
        self.refuses(outcome_json.outcome_from_json, outcome, "duration_s", "long")
        self.refuses(outcome_json.outcome_from_json, outcome, "left", "thread")
        self.refuses(outcome_json.outcome_from_json, outcome, "calls", [{}])
        with self.assertRaises(KeyError):
            outcome_json.subtest_from_json({})

    def refuses(
        self, read: Callable[[dict[str, Any]], object], value: dict[str, Any], name: str, wrong: object
    ) -> None:
        """Checks that a value is refused in which one field is wrong."""
        with (
            self.subTest(read.__name__, **{name: wrong}),
            self.assertRaises((TypeError, ValueError, KeyError)),
        ):
            read({**value, name: wrong})

    def test_known(self) -> None:
        """What the receiver knows itself counts, whatever the sender says."""
        value = {"rank": 0, "status": "passed", "pid": 5}
        self.assertEqual(
            outcome_json.outcome_from_json(value, rank=3, pid=7), RankOutcome(3, Status.PASSED, pid=7)
        )


if __name__ == "__main__":
    unittest.main()
