"""Tests which line is the user's, and what stands between it and torch."""

from __future__ import annotations

import mmap
import sys
import unittest
from collections.abc import Callable
from types import ModuleType
from typing import Any

from harness.communication.call_log import LOG_BYTES, CallLog
from harness.communication.user_lines import ObjectCall, Places, know

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
        self.places.find(sys._getframe(1))
        self.found.append(self.places.around)

    def test_users_line(self) -> None:
        """The innermost frame of the user's, below which only torch is."""
        function_in("/home/me/t.py", "step")(lambda: function_in(C10D)(self.inside))
        self.assertEqual(self.places.last, f"test_user_lines.py:{_line(self.test_users_line, 2)} in <lambda>")
        self.assertFalse(self.places.by_library)

    def inside(self) -> None:
        """Finds the place from a frame of torch's."""
        self.places.find(sys._getframe(1))
        self.found.append(self.places.around)

    def test_library(self) -> None:
        """A call that a library makes for the user."""
        function_in("/home/me/t.py", "step")(
            lambda: function_in(FSDP)(lambda: function_in(C10D)(self.inside))
        )
        self.assertFalse(self.places.by_library)  # the lambda is the user's
        self.places.find(None)
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
        numbers = {self.places.find(sys._getframe(0)) for _ in range(2)}
        self.assertEqual(len(numbers), 1)


def _line(function: Any, after: int) -> int:
    return int(function.__code__.co_firstlineno) + after


if __name__ == "__main__":
    unittest.main()
