"""Records of finished tests: a line of JSON each, lossless, and readable across versions."""

from __future__ import annotations

import json
import unittest
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from harness import record
from harness.communication_call import Call, Signature, to_json
from harness.errors import ProtocolError
from harness.field_checks import LARGEST_S
from harness.outcomes import Status
from harness.record import RankRecord, SubtestRecord, TestRecord
from suites.selftest.call_strategies import CALLS
from suites.selftest.properties import given

# Whatever a test prints, except what no UTF-8 file can hold.
TEXT = st.text(max_size=30)
SECONDS = st.floats(-LARGEST_S, LARGEST_S)
COUNT = st.integers(0, 2**40)
RANKS = st.builds(
    RankRecord,
    rank=st.integers(0, 1000),
    status=st.sampled_from(Status),
    duration_s=SECONDS,
    started_s=st.none() | SECONDS,
    exit_code=st.none() | st.integers(-64, 255),
    peak_memory=st.none() | COUNT,
    error=TEXT,
    stack=TEXT,
    output=TEXT,
    log=st.none() | TEXT,
    pid=st.none() | COUNT,
    calls=st.lists(CALLS, max_size=2).map(tuple),
)
SUBTESTS = st.builds(
    SubtestRecord, TEXT, st.sampled_from(Status), TEXT, st.lists(st.integers(0, 9), max_size=3).map(tuple)
)
RECORDS = st.builds(
    TestRecord,
    id=TEXT,
    status=st.sampled_from(Status),
    duration_s=SECONDS,
    started_at=SECONDS,
    started_s=SECONDS,
    worker=TEXT,
    attempt=COUNT,
    repeat=COUNT,
    flaky=st.booleans(),
    seed=st.none() | COUNT,
    world_size=st.none() | COUNT,
    mode=TEXT,
    reason=TEXT,
    details=TEXT,
    output=TEXT,
    warnings=st.lists(TEXT, max_size=2).map(tuple),
    file=TEXT,
    line=COUNT,
    ranks=st.lists(RANKS, max_size=2).map(tuple),
    subtests=st.lists(SUBTESTS, max_size=2).map(tuple),
    subtests_run=COUNT,
    extra=st.dictionaries(TEXT, st.none() | COUNT | TEXT, max_size=2),
)


class RecordTest(unittest.TestCase):
    """One record, one line."""

    @given(RECORDS)
    def test_round_trip(self, value: TestRecord) -> None:
        """Through a line of a file."""
        line = record.dumps(value)
        self.assertNotIn("\n", line)
        self.assertEqual(record.from_json(json.loads(line)), value)

    def test_schema(self) -> None:
        """Each line says which it is."""
        value = record.to_json(TestRecord("a.b", Status.PASSED))
        self.assertEqual((value["schema"], value["kind"], value["status"]), (record.SCHEMA, "test", "passed"))

    def test_shape(self) -> None:
        """Scripts read these lines: a status is its text, calls have what is not their default."""
        call = Call(Signature("all_reduce", "default"), 3, 3, 1.5)
        rank = RankRecord(1, Status.TIMED_OUT, calls=(call,))
        subtest = SubtestRecord("(x=1)", Status.FAILED, "text", (0, 1))
        line = json.loads(record.dumps(TestRecord("a.b", Status.ERROR, ranks=(rank,), subtests=(subtest,))))
        self.assertEqual(line["status"], "error")
        self.assertEqual(line["ranks"][0]["status"], "timed out")
        self.assertEqual(
            line["ranks"][0]["calls"], {"signature": [0], "sequence": [3], "number": [3], "started_s": [1.5]}
        )
        self.assertEqual(line["signatures"], {"operation": ["all_reduce"], "group": ["default"]})
        expected = {"description": "(x=1)", "status": "failed", "details": "text", "ranks": [0, 1]}
        self.assertEqual(line["subtests"], [expected])

    def test_newer_schema(self) -> None:
        """Refused, with both numbers."""
        value = {**record.to_json(TestRecord("a", Status.PASSED)), "schema": record.SCHEMA + 1}
        with self.assertRaisesRegex(ProtocolError, f"schema {record.SCHEMA + 1}.*up to {record.SCHEMA}"):
            record.from_json(value)

    def test_older_line(self) -> None:
        """Fields that it lacks are filled in, those that nobody knows any more are left out."""
        value = {"id": "a.b", "status": "failed", "colour_of_the_time": "sepia"}
        self.assertEqual(record.from_json(value), TestRecord("a.b", Status.FAILED))

    def test_first_schema(self) -> None:
        """Its calls were lists: operation, group, number, start and end."""
        rank = {"rank": 0, "status": "passed", "collectives": [["barrier", "0", 2, 1.0, None]]}
        value = {"schema": 1, "id": "a", "status": "passed", "ranks": [rank]}
        call = Call(Signature("barrier", "0"), 2, 2, 1.0)
        self.assertEqual(record.from_json(value).ranks, (RankRecord(0, Status.PASSED, calls=(call,)),))

    def test_second_schema(self) -> None:
        """Its calls were objects, each with its signature."""
        call = Call(Signature("barrier", "0"), 2, 2, 1.0)
        rank = {"rank": 0, "status": "passed", "calls": [to_json(call)]}
        value = {"schema": 2, "id": "a", "status": "passed", "ranks": [rank]}
        self.assertEqual(record.from_json(value).ranks, (RankRecord(0, Status.PASSED, calls=(call,)),))

    def test_nonsense(self) -> None:
        """A value that is no record is a ProtocolError."""
        for value in (
            {},
            {"id": "a"},
            {"id": "a", "status": "splendid"},
            {"id": "a", "status": "passed", "ranks": [{"no_such_field": 1}]},
            {"id": "a", "status": "passed", "ranks": [7]},
            {"id": "a", "status": "passed", "ranks": 7},
            {"id": "a", "status": "passed", "signatures": {"operation": [7]}},
            {"id": "a", "status": "passed", "signatures": [7]},
            {
                "id": "a",
                "status": "passed",
                "ranks": [{"rank": 0, "status": "passed", "calls": {"signature": [0]}}],
            },
        ):
            with self.assertRaises(ProtocolError, msg=str(value)):
                record.from_json(value)

    def test_wrong_values(self) -> None:
        """A field that does not hold what its annotation says is a ProtocolError."""
        rank = RankRecord(0, Status.PASSED, calls=(Call(Signature("send", "0"), 1, 1, 1.0),))
        whole = TestRecord("a", Status.PASSED, ranks=(rank,), subtests=(SubtestRecord("b", Status.FAILED),))
        self.assertEqual(record.from_json(record.to_json(whole)), whole)
        nan = float("nan")
        wrong: list[dict[str, Any]] = [
            {"id": 3},
            {"duration_s": nan},
            {"started_at": 1e300},
            {"attempt": True},
            {"attempt": 1.0},
            {"attempt": 10**400},
            {"flaky": 0},
            {"warnings": (3,)},
            {"extra": []},
            {"ranks": (RankRecord(0, Status.PASSED, pid=2**70),)},
            {"ranks": (replace(rank, calls=(Call(Signature("send", "0"), 1, 1, nan),)),)},
            {"subtests": (SubtestRecord("b", Status.FAILED, ranks=("x",)),)},  # type: ignore[arg-type]  # wrong
        ]
        for changes in wrong:
            with self.assertRaises(ProtocolError, msg=str(changes)):
                record.from_json(record.to_json(replace(whole, **changes)))

    def test_newer_fields_of_ranks(self) -> None:
        """Fields of ranks and sub-tests that a newer harness has added are left out."""
        newer = {"rank": 0, "status": "passed", "description": "b", "colour": "sepia"}
        value = {"id": "a", "status": "failed", "ranks": [newer], "subtests": [newer]}
        read = record.from_json(value)
        self.assertEqual(read.ranks, (RankRecord(0, Status.PASSED),))
        self.assertEqual(read.subtests, (SubtestRecord("b", Status.PASSED),))

    def test_ok(self) -> None:
        """Passed, skipped and expected failures are; nothing else is."""
        good = {Status.PASSED, Status.SKIPPED, Status.XFAILED}
        for status in Status:
            self.assertEqual(TestRecord("a", status).ok, status in good, status)


if __name__ == "__main__":
    unittest.main()
