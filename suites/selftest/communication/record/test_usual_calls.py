"""Tests that calls like earlier ones are recorded in one step, and as they are in many."""

from __future__ import annotations

import mmap
import threading
import unittest
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from harness.communication import call_log
from harness.communication.call_log import ENTRIES, LOG_BYTES, CallLog
from harness.communication.record.arguments import Arguments
from harness.communication.record.recorder import Recorder, key_and_arguments
from harness.communication_call import Call
from suites.selftest.communication.record.test_recorder import Group, Work


class UsualCallsTest(unittest.TestCase):
    """What ``again`` records, and when it leaves a call to ``began``."""

    def setUp(self) -> None:
        self.memory = mmap.mmap(-1, LOG_BYTES)
        self.log = CallLog(self.memory)
        self.recorder = Recorder(self.log, lambda group: (0, 1))
        self.groups = {"0": Group(), "1": Group("1", "undefined")}

    def calls(self) -> Sequence[Call]:
        """What the log has."""
        return call_log.read(self.memory)

    def method(self, operation: str, group: str, *, again: bool, **fields: Any) -> int | None:
        """A method of a group: it begins a call, by one of the two ways; for ``called`` alone."""
        key, arguments = key_and_arguments(operation, Arguments((torch.ones(2),)))
        own_work, numbered = fields.get("own_work", False), operation != "send"
        if again:
            return self.recorder.again(self.groups[group], key, own_work, numbered)
        return self.recorder.began(self.groups[group], operation, key, arguments, own_work=own_work)

    def called(self, operation: str = "all_reduce", group: str = "0", **fields: Any) -> int | None:
        """A function of the user's that calls a group's method; by ``again`` unless told otherwise."""
        return self.method(operation, group, **{"again": True, **fields})

    def test_as_in_many_steps(self) -> None:
        """Collectives and messages, with and without a handle of the caller's, on several groups."""
        kinds: list[dict[str, Any]] = [
            {},
            {"group": "1"},
            {"own_work": True},
            {"operation": "send", "own_work": True},
            {"operation": "barrier"},
        ]
        for again in (False, True):
            for fields in kinds:
                self.assertIsNotNone(self.called(again=again, **fields))
        made = self.calls()
        self.assertEqual(len(made), 2 * len(kinds))
        for fields, before, after in zip(kinds, made, made[len(kinds) :], strict=False):
            with self.subTest(fields):
                self.assertLess(before.started_s, after.started_s)
                self.assertEqual(after.waiting_s, None if fields.get("own_work") else after.started_s)
                by = {"0": 3, "1": 1}[before.signature.group] if fields.get("operation") != "send" else 0
                same: dict[str, Any] = {"started_s": before.started_s, "waiting_s": before.waiting_s}
                same |= {"sequence": after.sequence - by, "number": after.number - by}
                self.assertEqual(replace(after, **same), before)

    def test_something_new(self) -> None:
        """Nothing is recorded of a call whose group or arguments were never seen, or that a library makes."""
        self.called(again=False)
        space: dict[str, Any] = {}
        exec(compile("def call(inner):\n    return inner()\n", "/venv/site-packages/x.py", "exec"), space)
        calls: dict[str, Callable[[], int | None]] = {
            "the arguments": lambda: self.called("barrier"),
            "the group": lambda: self.called(group="1"),
            "a library's line": lambda: space["call"](partial(self.method, "all_reduce", "0", again=True)),
        }
        for what, call in calls.items():
            with self.subTest(what):
                self.assertIsNone(call())
                self.assertEqual(len(self.calls()), 1)
        self.assertIsNotNone(self.called())

    def test_new_line(self) -> None:
        """A line of the user's that was never seen is found out, and known from then on."""
        self.called(again=False)
        for _ in range(2):
            self.method("all_reduce", "0", again=True)
        places = [call.place for call in self.calls()]
        self.assertIn("in called", places[0])
        self.assertIn("in test_new_line", places[1])
        self.assertEqual(places[2], places[1])

    def test_forgotten(self) -> None:
        """After the log has forgotten its texts, or the groups are new, the next call is new as well."""
        self.called(again=False)
        self.recorder.restart()
        self.assertIsNone(self.called())
        self.called(again=False)
        self.log.text("x" * 150_000)
        self.log.clear()
        self.recorder.forget_calls()
        self.assertIsNone(self.called())

    def test_parts(self) -> None:
        """Where an object collective was a part of the calls before, the user's number is smaller."""
        self.called(again=False)
        self.recorder._known.find(self.groups["0"]).parts = 1
        self.called()
        self.assertEqual([(c.sequence, c.number) for c in self.calls()], [(1, 1), (2, 1)])

    def test_threads(self) -> None:
        """It is told that another thread of Python's is there."""
        self.called(again=False)
        over = threading.Event()
        other = threading.Thread(target=over.wait)
        other.start()
        self.called()
        over.set()
        other.join()
        self.called()
        one, two, three = (c.threads for c in self.calls())
        self.assertEqual((two - one, three - one), (1, 0))

    def test_around_the_ring(self) -> None:
        """The oldest call makes room for the newest, and its end is nobody's any more."""
        first, last = Work(), Work()
        token = self.called(again=False)
        assert token is not None
        self.recorder.returned(token, first)
        for _ in range(ENTRIES):
            token = self.called()
            assert token is not None
        self.recorder.returned(token, last)
        self.recorder.waited(first)
        calls = self.calls()
        self.assertEqual([c.sequence for c in calls], list(range(2, ENTRIES + 2)))
        self.assertEqual({c.ended_s for c in calls}, {None})
        self.recorder.waited(last)
        self.assertEqual([c.sequence for c in self.calls() if c.ended_s is not None], [ENTRIES + 1])


if __name__ == "__main__":
    unittest.main()
