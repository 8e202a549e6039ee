"""Tests the encoding of messages between hosts: lossless, and strict about what comes from elsewhere."""

from __future__ import annotations

import json
import unittest

from hypothesis import strategies as st

from harness.errors import ProtocolError
from harness.hosts import messages
from harness.hosts.messages import (
    Arrived,
    Began,
    Begin,
    Claim,
    Claimed,
    Data,
    End,
    ForkWorker,
    Goodbye,
    HostSwept,
    NotBegun,
    Ping,
    Pong,
    RankEnded,
    Settled,
    StartZygote,
    Stream,
    ToSignal,
    TurnedAway,
    Welcome,
    ZygoteEnded,
    decode,
    encode,
)
from suites.selftest.properties import given

ALL = (
    Arrived("a", "10.0.0.1", 5, 6, 7, {"torch": "2"}),
    Welcome(),
    TurnedAway("why"),
    Goodbye(),
    Ping(1.5),
    Pong(1.5, 2.5),
    Settled(-3.5, 20.0),
    Begin(1, "{}", "t", ["a", "b"], "10.0.0.1:6"),
    Begin(1, "{}", "t", ["a"], "", {"MY_DEVICES": "2,3"}),
    Began(1, [10, 11]),
    NotBegun(1, "why"),
    ToSignal(1, 2, 9, True),
    End(1),
    RankEnded(1, 2, -9, 3),
    HostSwept(1, ["x"]),
    StartZygote({"A": "b"}, {"OMP_NUM_THREADS": None}, ["/p"]),
    ForkWorker(1, "{}"),
    Claim(1),
    Claimed(1, True),
    ZygoteEnded("why"),
    Data(1, 2, Stream.LOG, b"\x00D{", 4096),
)


class MessagesTest(unittest.TestCase):
    """``encode`` and ``decode``."""

    def test_round_trip(self) -> None:
        """Each message comes back as it was."""
        self.assertEqual({type(each).__name__ for each in ALL} - {"Data"}, set(messages._KINDS))
        for message in ALL:
            with self.subTest(message):
                self.assertEqual(decode(encode(message)), message)

    def test_wrong_fields(self) -> None:
        """Fields that are absent, too many or of another type are refused."""
        good = json.loads(encode(Began(1, [2])))
        changes: tuple[dict[str, object], ...] = (
            {"pids": ["2"]},
            {"pids": 2},
            {"launch": True},
            {"launch": None},
            {"more": 1},
            {"kind": "Data"},
            {"kind": []},
            {"kind": "Launch"},
        )
        for change in changes:
            with self.subTest(change), self.assertRaises(ProtocolError):
                decode(json.dumps({**good, **change}).encode())
        del good["pids"]
        with self.assertRaises(ProtocolError):
            decode(json.dumps(good).encode())

    @given(st.binary(max_size=40))
    def test_garbage(self, data: bytes) -> None:
        """Any other bytes are a ProtocolError, or a piece of a stream."""
        try:
            message = decode(data)
        except ProtocolError:
            return
        self.assertIsInstance(message, Data)


if __name__ == "__main__":
    unittest.main()
