"""Tests what is recorded of a rank that is no call on a group."""

from __future__ import annotations

import mmap
import unittest
from collections.abc import Sequence

from harness.communication import call_log
from harness.communication.call_log import LOG_BYTES, CallLog
from harness.communication.record.known_groups import KnownGroups
from harness.communication.record.other_calls import OtherCalls
from harness.communication_call import Call, Kind


class OtherCallsTest(unittest.TestCase):
    """What ``OtherCalls`` writes into the log."""

    def setUp(self) -> None:
        self.memory = mmap.mmap(-1, LOG_BYTES)
        log = CallLog(self.memory)
        self.others = OtherCalls(log, KnownGroups(lambda group: (0, 1), log.text))

    def calls(self) -> Sequence[Call]:
        """What the log has."""
        return call_log.read(self.memory)

    def lay_out(self, members: tuple[int, ...], placements: str) -> None:
        """Gives a tensor placements on a mesh."""
        self.others.ended(self.others.lays_out("redistribute", members, placements))

    def test_stores(self) -> None:
        """A rank waits for a key; it does not wait where it sets one."""
        self.others.uses_store("store.get", "a", Kind.STORE, 30.0)
        self.others.uses_store("store.set", "a", Kind.SETTING, 30.0)
        self.others.uses_store("store.get", "b", Kind.STORE, 30.0, bounded=True)
        found = [(c.waits, c.bounded, c.signature.key) for c in self.calls()]
        self.assertEqual(found, [(True, False, "a"), (False, False, "a"), (True, True, "b")])

    def test_workers(self) -> None:
        """A rank waits for a worker's answer where it says so, and for all workers where there are any."""
        self.others.asks_worker("rpc_async", "w1", waits=False)
        self.others.ended(self.others.asks_worker("to_here", "w1", waits=True), raised=True)
        for workers in (2, 0):
            self.others.meets_workers("rpc.shutdown", "w0", workers, 9.0)
        found = [(c.waits, c.raised, c.signature.key, c.signature.workers) for c in self.calls()]
        expected = [
            (False, False, "w1", 0),
            (False, True, "w1", 0),
            (True, False, "w0", 2),
            (False, False, "w0", 0),
        ]
        self.assertEqual(found, expected)

    def test_numbers_of_workers_calls(self) -> None:
        """They say how often the rank has joined in this test; a joining that fails is none."""
        self.others.ended(self.meet("init_rpc"), raised=True)
        for _ in range(2):
            self.others.has_agent(self.meet("init_rpc"))
            self.meet("rpc.shutdown")
            self.others.has_agent(-1)
        self.others.forget_calls()
        self.meet("init_rpc")
        self.assertEqual([c.number for c in self.calls()], [1, 1, 1, 2, 2, 1])

    def meet(self, operation: str) -> int:
        """Begins what all workers do together."""
        return self.others.meets_workers(operation, "w0", 2, None)

    def test_layouts(self) -> None:
        """Placements are numbered by mesh."""
        for members in ((0, 1), (0, 1), (0, 2)):
            self.lay_out(members, "(Shard(dim=0),)")
        self.others.forget_groups()
        self.lay_out((0, 1), "(Shard(dim=0),)")
        self.assertEqual([c.number for c in self.calls()], [1, 2, 1, 1])

    def test_layouts_by_line(self) -> None:
        """Calls that need not be equally often are numbered by line."""
        for number in (1, 2):
            self.others.ended(self.others.lays_out("from_local", (0, 1), f"({number},)", by_line=True))
        self.others.ended(self.others.lays_out("from_local", (0, 1), "(3,)", by_line=True))
        self.assertEqual([c.number for c in self.calls()], [1, 2, 1])

    def test_parameters(self) -> None:
        """The parameters that a module has are numbered by group, apart from placements."""
        self.lay_out((0, 1), "(Shard(dim=0),)")
        for members, default in (((0, 1), True), ((0, 1), True), ((1,), False)):
            self.others.ended(self.others.has_parameters(members, "(2,) float32", default=default))
        found = [(c.number, c.brief) for c in self.calls()[1:]]
        name = "DistributedDataParallel #1"
        self.assertEqual(found[0], (1, name))
        self.assertEqual([number for number, _ in found], [1, 2, 1])
        self.assertEqual(found[2][1], f"{name} on the group of ranks 1")

    def test_making(self) -> None:
        """Who makes a group, where, and who waits for its members."""
        for waits in (True, False):
            self.others.makes_group("7", (0, 1), default=False, waits=waits, timeout_s=None)
        first, second = self.calls()
        self.assertRegex(first.signature.made_at, r"^test_other_calls.py:\d+$")
        self.assertEqual((first.kind, first.waits, second.waits), (Kind.MAKING, True, False))

    def test_in_cpp(self) -> None:
        """A rank waits in a function of C++ until that has ended."""
        token = self.others.cpp_begins("backward")
        (call,) = self.calls()
        self.assertEqual((call.signature.operation, call.waits, call.ended_s), ("backward", True, None))
        self.others.ended(token)
        self.assertIsNotNone(self.calls()[0].ended_s)


if __name__ == "__main__":
    unittest.main()
