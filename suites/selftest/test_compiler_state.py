"""Tests what is forgotten of torch.compile between tests, and what it leaves undone and uncompiled."""

from __future__ import annotations

import logging
import sys
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
import torch._dynamo

from harness.compiler_state import (
    leave_guards_untimed,
    leave_lines_unnamed,
    reset_compiler,
    reset_if_used,
    uncompiled,
)


class Compiler:
    """A backend that keeps the graphs that it is given."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(graph)
        run: Callable[..., Any] = graph.forward
        return run


class ResetTest(unittest.TestCase):
    """What is left of a compiled function after a reset."""

    def setUp(self) -> None:
        reset_compiler()
        self.addCleanup(reset_compiler)
        self.compiler = Compiler()
        self.compiled = torch.compile(lambda x: x + 1, backend=self.compiler)
        self.compiled(torch.ones(2))

    def compiles_again(self) -> bool:
        """Returns whether the next call of the function compiles it once more."""
        before = len(self.compiler.graphs)
        self.compiled(torch.ones(2))
        return len(self.compiler.graphs) > before

    def test_reset(self) -> None:
        """After a reset nothing is counted, and a function is compiled anew."""
        self.assertFalse(self.compiles_again())
        self.assertTrue(torch._dynamo.utils.counters)
        reset_compiler()
        self.assertFalse(torch._dynamo.utils.counters)
        self.assertTrue(self.compiles_again())

    def test_reset_if_used(self) -> None:
        """The conditional reset takes place only if something has been counted."""
        torch._dynamo.utils.counters.clear()
        reset_if_used()
        self.assertFalse(self.compiles_again())
        torch._dynamo.utils.counters["frames"]["ok"] += 1
        reset_if_used()
        self.assertTrue(self.compiles_again())

    def test_without_the_compiler(self) -> None:
        """A reset does not import the compiler."""
        with mock.patch.dict(sys.modules):
            del sys.modules["torch._dynamo"]
            reset_compiler()
            reset_if_used()
            self.assertNotIn("torch._dynamo", sys.modules)
        self.assertFalse(self.compiles_again())


class GuardsTest(unittest.TestCase):
    """What dynamo does with the guards of a compiled function besides checking them."""

    def setUp(self) -> None:
        reset_compiler()
        self.addCleanup(reset_compiler)

    def test_untimed(self) -> None:
        """A compiled function is not timed, and its guards hold: another dtype is another graph."""
        with mock.patch.object(torch._dynamo.guards, "profile_guard_manager", return_value=0.0) as timed:
            self.assertEqual(self.graphs_of_two_dtypes(), 2)
            self.assertEqual(timed.call_count, 2)
            leave_guards_untimed()
            reset_compiler()
            self.assertEqual(self.graphs_of_two_dtypes(), 2)
            self.assertEqual(timed.call_count, 2)

    def graphs_of_two_dtypes(self) -> int:
        compiler = Compiler()
        compiled = torch.compile(lambda x: x + 1, backend=compiler)
        for tensor in (torch.ones(2), torch.ones(2).double(), torch.ones(2)):
            compiled(tensor)
        return len(compiler.graphs)

    def test_a_torch_that_times_nothing(self) -> None:
        """Where torch has no such function there is nothing to leave out."""
        with mock.patch.object(torch._dynamo.guards, "profile_guard_manager"):
            del torch._dynamo.guards.profile_guard_manager
            leave_guards_untimed()
            self.assertFalse(hasattr(torch._dynamo.guards, "profile_guard_manager"))


class LinesTest(unittest.TestCase):
    """What dynamo looks up of the source lines of a function that it compiles."""

    convert: Any = torch._dynamo.symbolic_convert

    def setUp(self) -> None:
        reset_compiler()
        self.addCleanup(reset_compiler)
        looked_up = mock.patch.object(self.convert, "get_funcname", return_value="here")
        self.looked_up = looked_up.start()
        self.addCleanup(looked_up.stop)

    def look_ups(self) -> int:
        """Compiles a function; returns how often dynamo looks a function's name up."""
        self.looked_up.reset_mock()
        reset_compiler()
        torch.compile(lambda x: x + 1, backend=Compiler())(torch.ones(2))
        return int(self.looked_up.call_count)

    @unittest.skipIf(sys.version_info < (3, 11), "dynamo names no lines on Python 3.10")
    def test_no_log_wants_them(self) -> None:
        """Nothing is looked up for a log that is off."""
        self.assertEqual(self.look_ups(), 1)
        leave_lines_unnamed()
        self.assertEqual(self.look_ups(), 0)

    def test_a_log_wants_them(self) -> None:
        """The logs that show names have them; a second call changes nothing."""
        leave_lines_unnamed()
        find = self.convert.get_funcname
        leave_lines_unnamed()
        self.assertIs(self.convert.get_funcname, find)
        for name in ("trace_call_log", "trace_source_log"):
            log = getattr(self.convert, name)
            self.assertIsNone(self.convert.get_funcname("file", 1))
            with self.subTest(name), mock.patch.object(log, "isEnabledFor", logging.DEBUG.__eq__):
                self.assertEqual(self.convert.get_funcname("file", 1), "here")
        self.assertEqual(self.looked_up.call_args_list, [mock.call("file", 1)] * 2)

    def test_a_torch_that_names_none(self) -> None:
        """Where torch has no such function there is nothing to leave out."""
        del self.convert.get_funcname
        self.addCleanup(setattr, self.convert, "get_funcname", self.looked_up)
        leave_lines_unnamed()
        self.assertFalse(hasattr(self.convert, "get_funcname"))


class UncompiledTest(unittest.TestCase):
    """A function that breaks the graph of the compiled function which calls it."""

    def setUp(self) -> None:
        reset_compiler()
        self.addCleanup(reset_compiler)

    def graphs_with(self, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> int:
        """Returns how many graphs a compiled function has that calls ``wrap(breaks)``."""

        def triple(x: torch.Tensor) -> torch.Tensor:
            return x * 3

        def breaks(x: torch.Tensor) -> torch.Tensor:
            torch._dynamo.graph_break()
            return triple(x)

        breaks.__code__ = breaks.__code__.replace()  # a new object: what is left alone is the code
        called = wrap(breaks)
        compiler = Compiler()
        torch.compile(lambda x: called(x) + 1, backend=compiler)(torch.ones(2))
        return len(compiler.graphs)

    def test_frames_are_left_alone(self) -> None:
        """Neither an uncompiled function nor what it calls becomes a graph."""
        self.assertEqual(self.graphs_with(lambda function: function), 2)
        reset_compiler()
        self.assertEqual(self.graphs_with(uncompiled), 1)

    def test_is_the_function(self) -> None:
        """It is the function itself, and can be called as before."""

        def double(x: int) -> int:
            return 2 * x

        self.assertIs(uncompiled(double), double)
        self.assertEqual(double(2), 4)


if __name__ == "__main__":
    unittest.main()
