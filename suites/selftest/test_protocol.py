"""Messages: what is encoded comes back equal, and anything else is refused by a ProtocolError."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import unittest
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from harness import protocol
from harness.errors import ProtocolError
from harness.field_checks import LARGEST_S
from harness.outcomes import ErrorInfo, RankOutcome, Status, SubtestOutcome
from suites.selftest.call_strategies import CALLS
from suites.selftest.properties import given

# Any text a test could print, lone surrogates too: str() of an exception may hold them.
TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=30)
SECONDS = st.floats(-LARGEST_S, LARGEST_S)
INTEGERS = st.integers(-(2**40), 2**40)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ERRORS = st.builds(
    ErrorInfo, TEXT, TEXT, TEXT, is_assertion=st.booleans(), pickled=st.none() | st.binary(max_size=40)
)
SUBTESTS = st.builds(
    SubtestOutcome,
    message=st.none() | TEXT,
    params=st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple),
    status=st.sampled_from([Status.PASSED, Status.SKIPPED, Status.FAILED, Status.ERROR]),
    error=st.none() | ERRORS,
    skip_reason=st.none() | TEXT,
)
OUTCOMES = st.builds(
    RankOutcome,
    rank=st.integers(0, 2**16),
    status=st.sampled_from(Status),
    error=st.none() | ERRORS,
    skip_reason=st.none() | TEXT,
    subtests=st.lists(SUBTESTS, max_size=3).map(tuple),
    exit_code=st.none() | INTEGERS,
    duration_s=SECONDS,
    started_s=st.none() | SECONDS,
    peak_memory=st.none() | st.integers(0, 2**50),
    output=TEXT,
    calls=st.lists(CALLS, max_size=3).map(tuple),
    stack=TEXT,
    phase=st.sampled_from(["start", "test", "cleanup", "exit"]),
    order=st.integers(0, 2**16),
    at_s=SECONDS,
    pid=st.none() | st.integers(1, 2**22),
    accepted=st.lists(JSON, max_size=2).map(tuple),
    note=TEXT,
    log=st.none() | TEXT,
)
MODULES = st.builds(protocol.ModuleRef, TEXT, st.none() | TEXT, st.none() | TEXT)
LAUNCHES = st.builds(
    protocol.Launch,
    module=MODULES,
    qualname=TEXT,
    method=TEXT,
    world_size=st.integers(1, 1024),
    file_name=TEXT,
    environ=st.dictionaries(TEXT, TEXT, max_size=3),
    cwd=TEXT,
    sys_path=st.lists(TEXT, max_size=3),
    argv=st.lists(TEXT, max_size=3),
    threads=st.none() | st.integers(1, 64),
    start_timeout_s=st.none() | SECONDS,
    preload=st.booleans(),
    imports=st.lists(TEXT, max_size=2),
    kwargs=st.dictionaries(TEXT, JSON, max_size=2),
    ranks=st.lists(st.integers(0, 64), max_size=3),
)
MESSAGES = st.one_of(
    LAUNCHES,
    st.builds(protocol.SubtestFailed, st.integers(0, 2**16), SUBTESTS, st.integers(0, 2**20)),
    st.builds(protocol.Report, OUTCOMES, st.integers(0, 2**20)),
    st.builds(protocol.Lost, OUTCOMES),
    st.builds(
        protocol.Launched, st.lists(st.integers(1, 2**22), max_size=4), st.lists(TEXT), st.lists(SECONDS)
    ),
    st.builds(protocol.HostLost, st.lists(st.integers(0, 64)), TEXT),
    st.builds(protocol.Refused, TEXT, st.booleans()),
    st.builds(protocol.Exited, st.integers(0, 64), st.integers(-64, 255), st.integers(0, 2**50)),
    st.builds(protocol.Swept, st.lists(TEXT, max_size=3)),
    st.builds(protocol.Signal, st.integers(0, 64), st.integers(1, 64), st.booleans()),
    st.builds(protocol.Release),
    st.builds(
        protocol.Assignment,
        st.integers(0, 64),
        LAUNCHES,
        st.lists(st.integers(0, 100), max_size=3),
        st.integers(1, 2**22),
    ),
)


class RoundTripTest(unittest.TestCase):
    """Messages that are encoded and decoded."""

    @given(MESSAGES)
    def test_every_message(self, message: protocol.Message) -> None:
        """Comes back equal, and is one line of ASCII on the way."""
        frame = protocol.encode(message)
        self.assertEqual(protocol.decode(frame), message)
        self.assertTrue(frame.isascii())
        self.assertNotIn(b"\n", frame)

    @given(st.builds(protocol.Passed, st.integers(0, 2**16), SECONDS, SECONDS, st.integers(1, 2**22)))
    def test_passed_is_a_report_in_short(self, message: protocol.Passed) -> None:
        """It comes back as the report that it stands for."""
        frame = protocol.encode(message)
        outcome = RankOutcome(
            message.rank,
            Status.PASSED,
            duration_s=message.duration_s,
            started_s=message.started_s,
            pid=message.pid,
        )
        self.assertEqual(protocol.decode(frame), protocol.Report(outcome))
        self.assertEqual(protocol.decode(frame, order=3), protocol.Report(replace(outcome, order=3)))
        for wrong in (frame[:-1], frame + b"\0", frame[:1]):
            with self.assertRaises(ProtocolError):
                protocol.decode(wrong)

    @given(st.builds(protocol.RepeatLaunch, TEXT, TEXT, TEXT))
    def test_again_is_its_three_texts(self, message: protocol.RepeatLaunch) -> None:
        """It comes back equal; a frame that ends within the file or before is no message."""
        frame = protocol.encode(message)
        self.assertEqual(protocol.decode(frame), message)
        within = len(frame) - len(message.current_test.encode("utf-8", "surrogatepass")) - 1
        for length in {1, 4, 8, within}:
            with self.assertRaises(ProtocolError):
                protocol.decode(frame[:length])

    def test_a_path_that_is_no_text(self) -> None:
        """Python's form of such bytes, lone surrogates, travels as it is."""
        again = protocol.RepeatLaunch("test_x", os.fsdecode(b"/tmp/\xff"))
        self.assertEqual(protocol.decode(protocol.encode(again)), again)

    def test_every_kind_is_drawn(self) -> None:
        """A message class that is added has to be added above."""
        drawn = {
            "Launch",
            "RepeatLaunch",
            "Passed",
            "SubtestFailed",
            "Report",
            "Lost",
            "HostLost",
            "Launched",
            "Refused",
            "Exited",
            "Swept",
            "Signal",
            "Release",
            "Assignment",
        }
        self.assertEqual(set(protocol._KINDS), drawn)


class RefusalTest(unittest.TestCase):
    """What is no message."""

    @given(st.binary(max_size=200))
    def test_bytes(self, data: bytes) -> None:
        """ProtocolError, or it happened to be a message; nothing else."""
        try:
            protocol.decode(data)
        except ProtocolError as error:
            self.assertLess(len(str(error)), 2000)

    @given(JSON)
    def test_json(self, value: Any) -> None:
        """Valid JSON of any shape is not enough."""
        with self.assertRaises(ProtocolError):
            protocol.decode(json.dumps(value).encode())

    @given(st.sampled_from(sorted(protocol._KINDS)), st.dictionaries(TEXT, JSON, max_size=3))
    def test_right_kind_wrong_fields(self, kind: str, value: dict[str, Any]) -> None:
        """A known kind with other fields."""
        frame = json.dumps({**value, "kind": kind}).encode()
        if kind == "Release" and not value.keys() - {"kind"}:
            self.assertEqual(protocol.decode(frame), protocol.Release())
        else:
            with self.assertRaises(ProtocolError):
                protocol.decode(frame)

    def test_reports_of_the_wrong_kind(self) -> None:
        """No field of an outcome, nor of what is inside it, has a value that its readers cannot work with."""
        error = {"type_name": "E", "message": "m", "traceback": "t", "is_assertion": True, "pickled": None}
        subtest: dict[str, Any] = {
            "message": None,
            "params": [],
            "status": "failed",
            "error": error,
            "skip_reason": None,
        }
        call = {"signature": {"operation": "send", "group": "0"}, "sequence": 1, "started_s": 1.0}
        rows: dict[str, list[Any]] = {
            "status": ["fine", 1, None, []],
            "rank": [True, 1.0, "1", None, 10**4000],
            "duration_s": ["long", None, True, math.inf, -math.inf, math.nan, 10**4000],
            "exit_code": ["3", 10**4000, -(2**64)],
            "note": [1, None, []],
            "left": ["abc", [1], [{"a": 1}], None],
            "warned": [1, [None]],
            "colour": ["blue"],
            "error": [5, {}, *_spoilt(error, type_name=1, message=None, traceback=[], pickled=1)],
            "subtests": [5, [5], *([each] for each in _spoilt(subtest, message=1, params=[["a", 1]]))],
            "calls": [5, [5], *([each] for each in _spoilt(call, signature=1, started_s="x"))],
        }
        rows["subtests"] += [[each] for each in _spoilt(subtest, status="crashed", skip_reason=4, error=5)]
        fine = {
            "rank": 1,
            "status": "failed",
            "error": error,
            "subtests": [subtest],
            "calls": [call],
        }
        protocol.decode(_report(fine))
        for name, values in rows.items():
            for value in values:
                with self.subTest(**{name: value}), self.assertRaises(ProtocolError):
                    protocol.decode(_report({**fine, name: value}))

    def test_a_pass_without_a_time(self) -> None:
        """The short form of a pass has times with which can be computed."""
        for duration, started in ((math.inf, 1.0), (1.0, math.nan), (2.0**38, 1.0)):
            with self.subTest(duration=duration, started=started), self.assertRaises(ProtocolError):
                protocol.decode(protocol.encode(protocol.Passed(1, duration, started, 7)))

    def test_expect(self) -> None:
        """The kind, or a ProtocolError that says both; also at the end of a stream."""
        frame = protocol.encode(protocol.Release())
        self.assertEqual(protocol.expect(frame, protocol.Release), protocol.Release())
        with self.assertRaisesRegex(ProtocolError, "expected Launched, got Release"):
            protocol.expect(frame, protocol.Launched)
        with self.assertRaisesRegex(ProtocolError, "expected Release, got None"):
            protocol.expect(None, protocol.Release)

    def test_unencodable(self) -> None:
        """TypeError in the sender, not nonsense at the receiver."""
        outcome = RankOutcome(0, Status.PASSED, accepted=(object(),))
        with self.assertRaises(TypeError):
            protocol.encode(protocol.Report(outcome))


def _spoilt(value: dict[str, Any], **wrong: Any) -> list[dict[str, Any]]:
    """The value with each of the wrong fields in turn."""
    return [{**value, name: each} for name, each in wrong.items()]


def _report(outcome: dict[str, Any]) -> bytes:
    """The frame of a report of these values, whatever they are."""
    with _any_digits():
        return json.dumps({"kind": "Report", "outcome": outcome}).encode()


@contextlib.contextmanager
def _any_digits() -> Iterator[None]:
    """Lets integers of thousands of digits be printed, which a sender may do."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


if __name__ == "__main__":
    unittest.main()
