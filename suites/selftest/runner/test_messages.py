"""Tests that the runner's messages cross a process without loss, and that nothing else passes for one."""

from __future__ import annotations

import unittest

from harness.errors import ProtocolError
from harness.runner.messages import (
    Began,
    Debugging,
    Done,
    Ended,
    Fork,
    Forked,
    Gone,
    HostLost,
    Item,
    Kill,
    Load,
    Loaded,
    Loading,
    Message,
    Ready,
    Unusable,
    decode,
    encode,
)
from harness.runner.scheduling.plan import Attempt

EXAMPLES: tuple[Message, ...] = (
    Load(["a.b"], ["/p"], {"A": "b", "C": None}),
    Loading("a.b"),
    Loaded(
        "a.b", [{"id": "x"}], error="e", skipped=None, dirty=True, import_s=0.5, files=["f"], duplicates=["d"]
    ),
    Ready(),
    Ready("mine on xpu", [{"tests": "c10d.*", "why": "no bool"}], ["0", "7"], "CUDA_VISIBLE_DEVICES", -1.5),
    HostLost("host a was lost"),
    Unusable("the plugin mine does not import"),
    Fork("1#1", [Item(1, "a", Attempt("a.T.t", 2, 3), 4)], "m", stream=True, threads=2, environ={"A": "b"}),
    Kill("1#1", 9, True),
    Forked("1#1", 77),
    Gone("1#1", -9, 1024),
    Began(1, 2.5),
    Ended(1, {"id": "x"}),
    Debugging(True),
    Done(),
)


class MessagesTest(unittest.TestCase):
    """``encode`` and ``decode``, for every kind of message."""

    def test_round_trip(self) -> None:
        """A message of every kind comes back as it was."""
        self.assertEqual({type(e) for e in EXAMPLES}, set(Message.__args__))
        for message in EXAMPLES:
            with self.subTest(message=message):
                self.assertEqual(decode(encode(message)), message)

    def test_anything_else(self) -> None:
        """Anything that is no message is a ProtocolError."""
        for frame in (
            b"",
            b"\xff",
            b"[]",
            b"{}",
            b'{"kind":"Began"}',
            b'{"kind":"Nonsense"}',
            b'{"kind":"Done","x":1}',
        ):
            with self.subTest(frame=frame), self.assertRaises(ProtocolError):
                decode(frame)

    def test_class_key(self) -> None:
        """``class_key`` is the key under which a class's fixture is timed."""
        self.assertEqual(Item(1, "a.b", Attempt("a.b.Outer.Inner.test_x")).class_key, "a.b.Outer.Inner")


if __name__ == "__main__":
    unittest.main()
