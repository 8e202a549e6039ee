"""Tests the recorder: numbers, groups, waits and findings of one rank, as its log has them."""

from __future__ import annotations

import mmap
import unittest
from collections.abc import Sequence
from typing import Any
from unittest import mock

import torch

from harness.communication import call_log
from harness.communication.call_log import LOG_BYTES, CallLog
from harness.communication.record.arguments import Arguments
from harness.communication.record.recorder import NOT_RECORDED, Recorder, key_and_arguments
from harness.communication.record.user_lines import Places
from harness.communication_call import Call, Kind

TENSOR = Arguments((torch.ones(2),))


class Group:
    """A process group as the recorder looks at it."""

    def __init__(self, name: str = "0", desc: str = "default_pg") -> None:
        self.group_name = name
        self.group_desc = desc

    def name(self) -> str:
        """The backend's name."""
        return "gloo"


class Work:
    """A work handle that is not over."""

    def is_completed(self) -> bool:
        """Says that the call is under way."""
        return False


class RecorderTest(unittest.TestCase):
    """What ``Recorder`` writes into its log."""

    def setUp(self) -> None:
        self.memory = mmap.mmap(-1, LOG_BYTES)
        self.recorder = Recorder(CallLog(self.memory), lambda group: (0, 1))
        self.group = Group()

    def calls(self) -> Sequence[Call]:
        """What the log has."""
        return call_log.read(self.memory)

    def begin(self, operation: str = "all_reduce", group: Any = None, **fields: Any) -> int:
        """Begins a call."""
        key = key_and_arguments(operation, fields.pop("arguments", TENSOR))
        return self.recorder.began(group or self.group, operation, *key, **fields)

    def test_numbers(self) -> None:
        """Collectives are numbered in each group; messages are not."""
        other = Group("1", "undefined")
        self.begin()
        self.begin("send", arguments=Arguments((torch.ones(1),), peer=1))
        self.begin("barrier", other)
        self.begin("barrier")
        told = [(c.signature.operation, c.signature.group, c.number) for c in self.calls()]
        self.assertEqual(told[0], ("all_reduce", "0", 1))
        self.assertEqual(told[2:], [("barrier", "1", 1), ("barrier", "0", 2)])

    def test_waits(self) -> None:
        """A synchronous call is waited for at once; one with a work handle of the caller's by its wait."""
        works = [Work(), Work()]
        for work, own in zip(works, (False, True), strict=True):
            self.recorder.returned(self.begin(own_work=own), work, own)
        self.assertEqual([c.waits for c in self.calls()], [True, False])
        for work in works:
            self.recorder.waits(work)
        self.assertEqual([c.waits for c in self.calls()], [True, True])
        for work in works:
            self.recorder.waited(work)
        self.assertTrue(all(c.ended_s is not None for c in self.calls()))

    def test_bounded(self) -> None:
        """A wait with a timeout of its own."""
        work = Work()
        self.recorder.returned(self.begin(own_work=True), work, True)
        self.recorder.waits(work, bounded=True)
        self.recorder.waited(work, raised=True)
        (call,) = self.calls()
        self.assertEqual((call.bounded, call.raised), (True, True))

    def test_a_wait_that_gives_up(self) -> None:
        """The call goes on, and a second wait is seen."""
        work = Work()
        self.recorder.returned(self.begin(own_work=True), work, True)
        self.recorder.waits(work, bounded=True)
        self.recorder.gave_up(work)
        (call,) = self.calls()
        self.assertEqual((call.waits, call.bounded, call.raised, call.ended_s), (False, False, False, None))
        self.recorder.waits(work)
        (call,) = self.calls()
        self.assertEqual((call.waits, call.bounded), (True, False))

    def test_refused(self) -> None:
        """A call that was refused for its arguments has no number; one that failed otherwise keeps its."""
        self.recorder.refused(self.begin(), self.group, "all_reduce", ValueError())
        self.recorder.refused(self.begin(), self.group, "all_reduce", RuntimeError())
        self.begin()
        self.assertEqual([c.number for c in self.calls()], [1, 1, 2])
        self.assertEqual([c.refused for c in self.calls()], [True, False, False])

    def test_groups_made_again(self) -> None:
        """A group of the same name begins anew, with its own members and where it was made."""
        self.begin()
        token = self.recorder.makes_group("0", (0, 1), default=True, waits=True, timeout_s=9.0)
        self.recorder.ended(token)
        self.begin(group=Group())
        first, making, second = self.calls()
        self.assertEqual((first.number, second.number), (1, 1))
        self.assertNotEqual(first.signature.group_key, second.signature.group_key)
        self.assertEqual((making.kind, making.signature.timeout_s), (Kind.MAKING, 9.0))

    def test_group_that_ends(self) -> None:
        """Which group the user's code ends, and where; what the harness ends by itself is not recorded."""

        def destroy() -> None:
            self.recorder.ends_group(self.group)  # as a wrapper of torch's function does

        self.begin()
        destroy()
        with mock.patch.object(Places, "find", return_value=0):
            self.recorder._places.last = ""
            destroy()
        call, ending = self.calls()
        self.assertEqual((ending.kind, ending.signature.group_key), (Kind.ENDING, call.signature.group_key))
        self.assertIn("in destroy", ending.place)
        self.assertIsNotNone(ending.ended_s)
        self.recorder.log.end_test()
        destroy()
        self.assertEqual(len(self.calls()), 2)

    def test_another_group_at_the_same_address(self) -> None:
        """A group is known by its object, and not by the address of one that is gone."""
        for name in map(str, range(5)):
            self.begin(group=Group(name, "undefined"))
        self.assertEqual([c.signature.group for c in self.calls()], [*map(str, range(5))])

    def test_traced(self) -> None:
        """A call with stand-ins for tensors is not recorded."""
        stand_in = Arguments((torch.ones(2, device="meta"),))
        for _ in range(2):
            self.assertEqual(self.begin(arguments=stand_in), NOT_RECORDED)
        self.recorder.ended(NOT_RECORDED)
        self.assertEqual(self.calls(), ())

    def test_in_cpp(self) -> None:
        """A call of C++'s ends with the wait for a tensor that it fills, or with the backward pass."""
        first, second = self.begin(unseen=True), self.begin(unseen=True)
        self.recorder.fills(first, [100])
        self.recorder.fills(second, [200])
        token = self.recorder.waits_for_tensor(100)
        assert token is not None
        self.assertTrue(self.calls()[0].waits)
        self.recorder.ended(token)
        self.assertIsNone(self.recorder.waits_for_tensor(100))
        backward = self.recorder.cpp_begins("backward")
        self.recorder.cpp_ended(backward)
        self.assertTrue(all(c.ended_s is not None for c in self.calls()))

    def test_findings(self) -> None:
        """What is wrong in the rank's own memory stands in the log."""
        tensor, work = torch.ones(2), Work()
        self.recorder.returned(self.begin(own_work=True), work, True)
        self.recorder.watches("all_reduce", ([tensor], 1), lambda: Arguments((tensor,)), (), work)
        tensor.add_(1)
        self.recorder.waited(work)
        (told,) = [c for c in self.calls() if c.kind is Kind.FINDING]
        self.assertIn("was written before the wait", told.signature.key)

    def test_asked(self) -> None:
        """A test that has asked may write the tensor."""
        tensor, work = torch.ones(2), Work()
        self.recorder.returned(self.begin(own_work=True), work, True)
        self.recorder.watches("all_reduce", ([tensor], 1), lambda: Arguments((tensor,)), (), work)
        self.recorder.learns_of(work)
        tensor.add_(1)
        self.recorder.waited(work)
        self.assertEqual([c.kind for c in self.calls()], [Kind.COLLECTIVE])
        self.assertIsNotNone(self.calls()[0].ended_s)

    def test_futures(self) -> None:
        """A call whose future was given is over, until a wait by the future or the work handle begins."""
        for by_future in (True, False):
            with self.subTest(by_future=by_future):
                work, future = Work(), Work()
                self.recorder.returned(self.begin(own_work=True), work, True)
                self.recorder.gives_future(work, future)
                self.assertIsNotNone(self.calls()[-1].ended_s)
                waited = future if by_future else work
                self.recorder.waits(waited)
                self.assertEqual((self.calls()[-1].waits, self.calls()[-1].ended_s), (True, None))
                self.recorder.waits(Work())
                self.recorder.waited(Work())
                self.assertIsNone(self.calls()[-1].ended_s)
                self.recorder.waited(waited)
                self.assertIsNotNone(self.calls()[-1].ended_s)

    def test_restart(self) -> None:
        """New groups are numbered from 1; the calls of kept groups go on."""
        self.begin()
        self.recorder.forget_calls()
        self.begin()
        self.recorder.restart()
        self.begin()
        self.assertEqual([c.number for c in self.calls()], [1, 2, 1])

    def test_texts_forgotten(self) -> None:
        """After the log has forgotten its texts, calls have theirs again."""
        log = CallLog(self.memory)
        recorder = Recorder(log, lambda group: (0, 1))

        def begin() -> None:  # the harness's function that calls the recorder, whose caller is the user's
            recorder.began(self.group, "barrier", *key_and_arguments("barrier", TENSOR))

        begin()
        log.text("x" * 150_000)
        log.clear()
        recorder.forget_calls()
        begin()
        (call,) = self.calls()
        self.assertEqual((call.signature.operation, call.signature.members), ("barrier", (0, 1)))
        self.assertIn("test_recorder.py", call.place)

    def test_another_log(self) -> None:
        """A recorder that was made with another log writes all into the one that it is given."""
        first, memory = self.memory, mmap.mmap(-1, LOG_BYTES)
        log = CallLog(memory)
        log.clear()
        self.recorder.write_to(log)
        self.begin()
        self.recorder.restart()
        self.begin()
        for call in call_log.read(memory):
            self.assertEqual((call.signature.operation, call.signature.members), ("all_reduce", (0, 1)))
            self.assertIn("test_recorder.py", call.place)
        self.assertEqual(len(call_log.read(memory)), 2)
        self.assertEqual(first[:], bytes(LOG_BYTES))

    def test_arguments_are_read_once(self) -> None:
        """Of calls that are given the same, also on other groups and in later tests of the rank."""
        read: list[str] = []

        def arguments(test: str) -> Arguments:
            read.append(test)
            return TENSOR

        def begin(group: Group, test: str) -> None:
            self.recorder.began(group, "all_reduce", "key", arguments, (test,))

        begin(self.group, "first")
        begin(Group("1", "undefined"), "first")
        self.recorder.restart()
        begin(Group(), "second")
        self.assertEqual(read, ["first"])
        self.assertEqual([c.signature.group for c in self.calls()], ["0", "1", "0"])
        self.assertEqual({c.signature.agreed for c in self.calls()}, {"2 x float32"})


if __name__ == "__main__":
    unittest.main()
