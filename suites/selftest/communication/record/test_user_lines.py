"""Tests which line is the user's, and what stands between it and torch."""

from __future__ import annotations

import _thread
import contextlib
import functools
import gc
import itertools
import mmap
import threading
import unittest
from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest import mock

import torch

from harness.communication import call_log
from harness.communication.call_log import LOG_BYTES, CallLog
from harness.communication.log_entries import NO_TEXT
from harness.communication.record.arguments import Arguments
from harness.communication.record.recorder import Recorder, key_and_arguments
from harness.communication.record.user_lines import ObjectCall, Places, know
from harness.communication_call import Call
from suites.selftest.communication.record.test_recorder import Group

C10D = "/venv/site-packages/torch/distributed/distributed_c10d.py"
FSDP = "/venv/site-packages/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py"


def function_in(file: str, name: str = "all_reduce") -> Callable[[Callable[[], Any]], Any]:
    """A function that stands in a file and calls another."""
    space: dict[str, Any] = {}
    exec(compile(f"def {name}(inner):\n    inner()\n    return inner()\n", file, "exec"), space)
    made: Callable[[Callable[[], Any]], Any] = space[name]
    return made


class PlacesTest(unittest.TestCase):
    """The line that ``Places`` finds."""

    def setUp(self) -> None:
        memory = mmap.mmap(-1, LOG_BYTES)
        self.places = Places(CallLog(memory))
        self.found: list[ObjectCall | None] = []

    def find(self) -> None:
        """Finds the place above this call."""
        self.places.find(2)
        self.found.append(self.places.around)

    def test_users_line(self) -> None:
        """The innermost frame of the user's, below which only torch is."""
        function_in("/home/me/t.py", "step")(lambda: function_in(C10D)(self.inside))
        self.assertEqual(self.places.last, f"test_user_lines.py:{_line(self.test_users_line, 2)} in <lambda>")
        self.assertFalse(self.places.by_library)

    def inside(self) -> None:
        """Finds the place from a frame of torch's."""
        self.places.find(2)
        self.found.append(self.places.around)

    def test_library(self) -> None:
        """A call that a library makes for the user."""
        function_in("/home/me/t.py", "step")(
            lambda: function_in(FSDP)(lambda: function_in(C10D)(self.inside))
        )
        self.assertFalse(self.places.by_library)  # the lambda is the user's
        self.places.find(1000)
        self.assertEqual(self.places.last, "")

    def test_decorated(self) -> None:
        """What decorates a function of torch's is torch's, wherever it is; of another library it is not."""
        for file, by_library in ((C10D, False), (FSDP, True)):
            space: dict[str, Any] = {"inside": self.inside}
            exec(compile("def gather():\n    return inside()\n", file, "exec"), space)
            source = "def decorated():\n    return decorated.__wrapped__()\n"
            exec(compile(source, f"/venv/site-packages/of_{by_library}.py", "exec"), space)
            space["decorated"].__wrapped__ = space["gather"]
            module = ModuleType("c10d")
            module.gather = space["decorated"]  # type: ignore[attr-defined]  # set for the first time
            know(module)
            space["decorated"]()
            self.assertEqual(self.places.by_library, by_library)

    def test_object_collective(self) -> None:
        """Calls of the backend that are parts of one call are told as such, and those of the next are not."""
        gather = function_in(C10D, "all_gather_object")
        for _ in range(2):
            gather(self.inside)
        first, second, third, fourth = self.found
        assert first and second and third and fourth
        self.assertEqual(first.name, "all_gather_object")
        self.assertTrue(second.continues(first))
        self.assertFalse(third.continues(second))
        self.assertTrue(fourth.continues(third))
        self.assertFalse(first.continues(None))

    def test_the_same_number(self) -> None:
        """The same line has the same number."""
        numbers = {self.places.find(1) for _ in range(2)}
        self.assertEqual(len(numbers), 1)


def passing(file: str, name: str = "passing") -> Callable[[Callable[[], Any]], Any]:
    """A function that stands in a file and calls what it is given: once, and in one instruction."""
    space: dict[str, Any] = {}
    exec(compile(f"def {name}(inner):\n    return inner()\n", file, "exec"), space)
    made: Callable[[Callable[[], Any]], Any] = space[name]
    return made


class LinesOfCallsTest(unittest.TestCase):
    """The lines of a recorder's calls, wherever the user's function was at the call before."""

    def setUp(self) -> None:
        self.memory = mmap.mmap(-1, LOG_BYTES)
        self.recorder = Recorder(CallLog(self.memory), lambda group: (0, 1))
        self.group, self.key = Group(), key_and_arguments("all_reduce", Arguments((torch.ones(2),)))
        # As torch has it: what decorates each public function is the same code.
        self.step, self.decorator = passing("/home/me/t.py", "step"), passing(C10D)
        self.reduce, self.send = passing(C10D), passing(C10D)
        self.batch, self.gather = passing(C10D), passing(C10D, "all_gather_object")

    def method(self) -> None:
        """A method of a group: it begins a call, which may be like an earlier one."""
        key, arguments = self.key
        if self.recorder.again(self.group, key, False, True) is None:
            self.recorder.began(self.group, "all_reduce", key, arguments)

    def call(self, *functions: Callable[[Callable[[], Any]], Any]) -> Callable[[], Any]:
        """What makes a call by these functions, outermost first, with no other frame between them."""
        call: Callable[[], Any] = self.method
        for each in reversed(functions):
            call = functools.partial(each, call)
        return call

    def made(self, *functions: Callable[[Callable[[], Any]], Any]) -> Call:
        """The call that was made by these functions."""
        self.call(*functions)()
        return call_log.read(self.memory)[-1]

    def test_in_turns(self) -> None:
        """The same line by all ways, each after each other one: what stands between is told rightly."""
        library, generated = passing(FSDP), passing("<eval_with_key>.0", "forward")
        near = (self.decorator, self.reduce)
        ways: dict[str, tuple[Callable[[Callable[[], Any]], Any], ...]] = {
            "directly": (),
            "not decorated": (self.send,),
            "decorated": near,
            "another function": (self.decorator, self.send),
            "one that calls another": (self.decorator, self.batch, *near),
            "an object collective": (self.decorator, self.gather, *near),
            "a library": (library, *near),
            "a library as near": (library, self.reduce),
            "generated": (generated, self.reduce),
            "generated, and a library": (generated, library),
        }
        for before, after in itertools.product(ways, ways):
            with self.subTest(before=before, after=after):
                self.made(self.step, *ways[before])
                call = self.made(self.step, *ways[after])
                name = "all_gather_object" if "object" in after else "all_reduce"
                told = call.place, call.by_library, call.signature.operation
                self.assertEqual(told, ("t.py:2 in step", "library" in after, name))

    def known(self, decorators: int, name: str = "passing") -> tuple[Any, ...]:
        """A function of torch's that ``know`` has looked at, with so many decorators, outermost first."""
        layers: list[Any] = [*(passing(C10D) for _ in range(decorators)), passing(C10D, name)]
        for outer, inner in itertools.pairwise(layers):
            outer.__wrapped__ = inner
        module: Any = ModuleType("c10d")
        module.function = layers[0]
        know(module)
        return tuple(layers)

    def test_known(self) -> None:
        """Functions with any number of decorators: the user's line is found again without a search."""
        plain, once, twice = (self.known(count) for count in range(3))
        quick: dict[str, tuple[Any, ...]] = {
            "directly": (),
            "not decorated": plain,
            "decorated": once,
            "decorated twice": twice,
            "one that calls another": (*twice, *once),
            "a message": (*once, *plain),
        }
        ways = quick | {
            "an object collective": (*self.known(1, "all_gather_object"), *once),
            "a library": (passing(FSDP), *once),
            "a library between": (*twice, passing(FSDP), *once),
        }
        for before, after in itertools.product(ways, ways):
            with self.subTest(before=before, after=after):
                self.made(self.step, *ways[before])
                call = self.made(self.step, *ways[after])
                name = "all_gather_object" if "object" in after else "all_reduce"
                told = call.place, call.by_library, call.signature.operation
                self.assertEqual(told, ("t.py:2 in step", "library" in after, name))
        self.made(self.step, *once)
        with mock.patch.object(Places, "find", side_effect=AssertionError("it searches")):
            for name, way in quick.items():
                with self.subTest(name):
                    self.assertEqual(self.made(self.step, *way).place, "t.py:2 in step")

    def test_a_generator(self) -> None:
        """What a context manager of torch's calls is called by its end, which stands in a library."""
        space: dict[str, Any] = {}
        exec(compile("def manager(inner):\n    yield\n    inner()\n", C10D, "exec"), space)
        module: Any = ModuleType("c10d")
        module.manager = contextlib.contextmanager(space["manager"])
        know(module)
        source = "def step(manager, inner):\n    with manager(inner):\n        pass\n"
        exec(compile(source, "/home/me/t.py", "exec"), space)
        for _ in range(2):
            self.made(self.step, *self.known(1))
            space["step"](module.manager, self.method)
            call = call_log.read(self.memory)[-1]
            self.assertEqual((call.place, call.by_library), ("t.py:2 in step", True))

    def test_the_innermost(self) -> None:
        """A user's function that code made at run time calls is nearer than the one that calls it."""
        generated, own = passing("<string>", "__init__"), passing("/home/me/t.py", "post_init")
        for _ in range(2):
            self.assertEqual(self.made(self.step, generated, self.reduce).place, "t.py:2 in step")
            self.assertEqual(self.made(self.step, generated, own).place, "t.py:2 in post_init")

    def test_recursion(self) -> None:
        """A function that calls itself, deeper and less deep in turns, and one that does not."""

        again = passing("/home/me/t.py", "again")
        for depth in (1, 5, 2, 2, 30, 1):
            for near in ((self.decorator, self.reduce), (self.send,)):
                call = self.made(self.step, *[again] * depth, *near)
                self.assertEqual(call.place, "t.py:2 in again")
            self.assertEqual(self.made(self.step, *near).place, "t.py:2 in step")

    def test_without_the_users(self) -> None:
        """A thread of torch that no function of the user's has called, after calls of some that were."""
        for functions in ((), (self.reduce,), (self.decorator, self.reduce)):
            with self.subTest(len(functions)):
                self.assertEqual(self.made(self.step, self.decorator, self.reduce).place, "t.py:2 in step")
                with mock.patch.object(self.recorder.log, "begin") as begin:
                    self.in_a_thread_of_torch(self.call(*functions))
                self.assertEqual(begin.call_args.args[1], NO_TEXT)

    def in_a_thread_of_torch(self, call: Callable[[], Any]) -> None:
        """Makes a call in a thread whose first function it is, and returns when it was made."""
        made = threading.Event()
        log: Any = self.recorder.log
        log.begin.side_effect = lambda *_: made.set()
        _thread.start_new_thread(call, ())
        self.assertTrue(made.wait(60))

    def test_code_that_is_gone(self) -> None:
        """Functions that live for one call, so that later ones might get their place in memory."""
        for turn in range(50):
            step = passing(f"/home/me/t{turn}.py", "step")
            self.assertEqual(self.made(step, self.decorator, self.reduce).place, f"t{turn}.py:2 in step")
            del step
            gc.collect()


def _line(function: Any, after: int) -> int:
    return int(function.__code__.co_firstlineno) + after


if __name__ == "__main__":
    unittest.main()
