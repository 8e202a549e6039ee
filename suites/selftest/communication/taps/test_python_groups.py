"""Tests which methods of groups and handles in Python are wrapped, and that the rest is torch's."""

from __future__ import annotations

import _thread
import threading
import unittest
from typing import Any

import torch
import torch.distributed as dist

from harness import DistributedTestBase, record_communication, recorded_communication
from harness.communication.taps.python_groups import named, on_each_subclass, overrides


class Method:
    """What a method is replaced by: it has the name and the original."""

    def __init__(self, original: Any, name: str) -> None:
        self.original, self.name = original, name


class Base:
    """A class of which others are made."""

    def send(self) -> str:
        """Returns what a subclass hides."""
        return "base"


class OverridesTest(unittest.TestCase):
    """Which methods ``overrides`` finds, and ``on_each_subclass`` wraps."""

    def test_overrides(self) -> None:
        """A subclass's own methods of those names are found, at any depth; those of the harness are not."""

        class Child(Base):
            def send(self) -> str:
                return "child"

        class Grandchild(Child):
            def recv(self) -> None:
                """Receives no message at all."""

            send = 5  # type: ignore[assignment]  # no method

        Hidden = type("Hidden", (Base,), {"send": Child.send, "__module__": "harness.groups"})
        found = set(overrides(Base, ("send", "recv")))
        self.assertEqual(found, {(Child, "send"), (Grandchild, "recv")})
        self.assertNotIn((Hidden, "send"), found)

    def test_each_new_class(self) -> None:
        """The methods of a class are wrapped when it is made, and arguments of the class statement pass."""

        class Root:
            tag = ""

            def __init_subclass__(cls, tag: str = "", **kwargs: Any) -> None:
                super().__init_subclass__(**kwargs)
                cls.tag = tag

        class Base(Root):
            """Its subclasses are watched."""

        on_each_subclass(Base, ("send",), Method)

        class Made(Base, tag="given"):
            def send(self) -> None:
                """Sends no message at all."""

            def other(self) -> None:
                """Has another name."""

        self.assertIsInstance(vars(Made)["send"], Method)
        self.assertNotIsInstance(vars(Made)["other"], Method)
        self.assertEqual(Made.tag, "given")

    def test_named(self) -> None:
        """A function's code gets the name."""
        self.assertEqual(named(lambda: None, "send").__code__.co_name, "send")


class Half(dist.ProcessGroup):  # type: ignore[misc]  # torch is not followed
    """A group that has one operation."""

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        """Gives the sum of what ranks alike have."""
        del opts
        for tensor in tensors:
            tensor.mul_(self.size())
        return Handle()

    def getBackendName(self) -> str:
        """Returns the name that torch asks for."""
        return "half"


class Telling(Half):
    """A group that says when its operation was called."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self.called = threading.Event()

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        """Says that it was called."""
        self.called.set()
        return Handle()  # not by another method, whose call would be recorded in place of this one


class Handle(dist.Work):  # type: ignore[misc]
    """A handle of what is over."""

    def wait(self, timeout: Any = None) -> bool:
        """Returns at once."""
        del timeout
        return True


class InRanksTest(DistributedTestBase):
    """Groups of Python in a rank whose calls are recorded."""

    world_size = 1

    def test_what_is_left_out_is_torchs(self) -> None:
        """torch says that a group has no such operation, and does not call it for ever."""
        group = Half(0, 1)
        with self.assertRaisesRegex(RuntimeError, "No backend type associated"):
            group.send([torch.ones(1)], 0, 0)
        self.assertFalse(dist.Work().is_completed())

    def test_is_recorded(self) -> None:
        """A call, the wait for it, and its arguments; nothing is said of its writing to its tensor."""
        group = Half(0, 1)
        with record_communication() as seen:
            options = dist.AllreduceOptions()
            options.reduceOp, options.asyncOp = dist.ReduceOp.MAX, True
            work = group.allreduce([torch.ones(3)], options)
            self.assertIsNone(recorded_communication().calls[-1].waiting_s)
            work.wait()
        (call,) = seen.calls
        self.assertTrue(call.own_work)
        self.assertIsNotNone(call.ended_s)
        self.assertEqual(call.signature.reduce_op, "MAX")
        self.assertEqual(len(recorded_communication().calls), 1)

    def test_called_by_a_thread_of_torch(self) -> None:
        """A call without a caller in Python, as in a backward on an accelerator, is recorded."""
        group, options = Telling(0, 1), dist.AllreduceOptions()
        _thread.start_new_thread(group.allreduce, ([torch.ones(3)], options))
        self.assertTrue(group.called.wait(60))
        self.assertEqual(
            [call.signature.operation for call in recorded_communication().calls], ["all_reduce"]
        )


if __name__ == "__main__":
    unittest.main()
