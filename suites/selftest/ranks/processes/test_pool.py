"""Tests the pool: what a kept rank set is sent for each test, and what a set that cannot be made leaves."""

from __future__ import annotations

import dataclasses
import os
import socket
import types
import unittest
from typing import Any
from unittest import mock

from harness.protocol import Launch, Message, ModuleRef, RepeatLaunch, decode
from harness.ranks.processes.module_import import CURRENT_TEST
from harness.ranks.processes.pool import Pool, PooledSet
from harness.system import scratch
from harness.wire import recv_frame

FIRST = Launch(
    module=ModuleRef("m", "/m.py"),
    qualname="Test",
    method="test_a",
    world_size=1,
    file_name="",
    environ={"A": "1"},
    cwd="/",
    sys_path=["/"],
    argv=["x"],
    threads=1,
    start_timeout_s=1.0,
)


class SendTest(unittest.TestCase):
    """``PooledSet.send`` to one rank, whose end of the channel the test holds."""

    def setUp(self) -> None:
        near, self.far = socket.socketpair()
        near.setblocking(False)
        for end in (near, self.far):
            self.addCleanup(end.close)
        ranks: Any = types.SimpleNamespace(
            links=[types.SimpleNamespace(channel=near)]
        )  # stands in for a RankSet
        self.set = PooledSet("key", ranks, "file")

    def told(self, request: Launch, *, file_name: str = "f", keeps_group: bool = True) -> Message:
        """Returns the message that the rank reads."""
        self.set.send(request, file_name=file_name, keeps_group=keeps_group)
        frame = recv_frame(self.far)
        assert frame is not None
        return decode(frame)

    def test_the_first_is_told_whole(self) -> None:
        expected = dataclasses.replace(FIRST, pooled=True, file_name="f", keeps_group=True)
        self.assertEqual(self.told(FIRST), expected)
        self.assertEqual(self.set.tests_run, 1)

    def test_a_rank_that_cannot_be_told(self) -> None:
        """A rank that has ended, or reads no more, is told of at once."""
        self.assertTrue(self.set.send(FIRST, file_name="f", keeps_group=True))
        self.far.shutdown(socket.SHUT_RD)
        self.assertFalse(self.set.send(FIRST, file_name="f", keeps_group=True))

    def test_another_test_of_the_class(self) -> None:
        """For another test of the class the rank gets the method and the file only, whatever the deadline."""
        self.told(FIRST)
        for method, file in (("test_b", "f"), ("test_a", "g")):
            request = dataclasses.replace(FIRST, method=method, start_timeout_s=2.0)
            self.assertEqual(self.told(request, file_name=file), RepeatLaunch(method, file))

    def test_another_test_under_pytest(self) -> None:
        """pytest's name of the test goes with the method; where another variable differs, all of them do."""
        first, second, third = (
            dataclasses.replace(FIRST, method=name, environ={**FIRST.environ, CURRENT_TEST: f"m.py::{name}"})
            for name in ("test_a", "test_b", "test_c")
        )
        self.told(first)
        self.assertEqual(self.told(second), RepeatLaunch("test_b", "f", "m.py::test_b"))
        self.assertEqual(self.told(second), RepeatLaunch("test_b", "f"))
        self.assertEqual(self.told(third), RepeatLaunch("test_c", "f", "m.py::test_c"))
        for environ in ({**first.environ, "A": "2"}, {"A": "2"}, first.environ):
            told = self.told(dataclasses.replace(first, environ=environ))
            assert isinstance(told, Launch)
            self.assertEqual((told.environ, told.same_surroundings), (environ, False))

    def test_another_class_under_pytest(self) -> None:
        """A request for another class has the environment of its own test."""
        first = dataclasses.replace(FIRST, environ={CURRENT_TEST: "m.py::Test::test_a"})
        self.told(first)
        other = dataclasses.replace(first, qualname="Other", environ={CURRENT_TEST: "m.py::Other::test_a"})
        told = self.told(other)
        assert isinstance(told, Launch)
        self.assertEqual((told.environ, told.same_surroundings), (other.environ, False))

    def test_what_differs_is_told(self) -> None:
        """Surroundings are left out if they are unchanged, and are all sent if any of them differs."""
        others: dict[str, tuple[dict[str, Any], bool]] = {
            "class": ({"qualname": "Other"}, True),
            "module": ({"module": ModuleRef("n", "/n.py")}, True),
            "arguments of _run": ({"kwargs": {"fake_pg": True}}, True),
            "threads": ({"threads": 2}, True),
            "imports": ({"imports": ["torch"]}, True),
            "filters of warnings": ({"warning_filters": ["[]"]}, True),
            "environment": ({"environ": {"A": "2"}}, False),
            "directory": ({"cwd": "/tmp"}, False),
            "path": ({"sys_path": ["/", "/tmp"]}, False),
            "argv": ({"argv": ["y"]}, False),
        }
        for name, (changes, same_surroundings) in others.items():
            with self.subTest(name):
                self.told(FIRST)
                request = dataclasses.replace(FIRST, **changes)
                told = self.told(request)
                assert isinstance(told, Launch)
                self.assertEqual(told.same_surroundings, same_surroundings)
                around = (told.environ, told.cwd, told.sys_path, told.argv)
                whole = (request.environ, request.cwd, request.sys_path, request.argv)
                self.assertEqual(around, ({}, "", [], []) if same_surroundings else whole)
                self.assertEqual(told.qualname, request.qualname)
                self.assertEqual(told.kwargs, request.kwargs)

    def test_the_group_is_no_longer_kept(self) -> None:
        """A rank is told that it no longer keeps its group, although all else is unchanged."""
        self.told(FIRST)
        told = self.told(FIRST, keeps_group=False)
        assert isinstance(told, Launch)
        self.assertFalse(told.keeps_group)
        self.assertIsInstance(self.told(FIRST, keeps_group=False), RepeatLaunch)


class LeaseTest(unittest.TestCase):
    """Pooled ranks and their rendezvous file."""

    def test_no_ranks_no_file(self) -> None:
        """If ranks cannot be started, the error is passed on and no file is left."""
        made = os.listdir(scratch.scratch().path)
        with self.assertRaises(ZeroDivisionError):
            Pool().lease("key", lambda: 1 / 0)  # type: ignore[arg-type, return-value]  # never returns
        self.assertEqual(os.listdir(scratch.scratch().path), made)

    def test_no_file_no_ranks(self) -> None:
        """If the file cannot be made, no ranks are started."""
        started: list[int] = []
        refused = mock.Mock(side_effect=OSError("no space"))
        with mock.patch.object(scratch.Scratch, "new_file", refused), self.assertRaises(OSError):
            Pool().lease("key", lambda: started.append(1))  # type: ignore[arg-type, return-value]  # never
        self.assertEqual(started, [])


if __name__ == "__main__":
    unittest.main()
