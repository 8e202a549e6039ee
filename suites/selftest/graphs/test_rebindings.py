"""Objects that a function rebinds in its arguments and its module are found and compared."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import torch

from harness import TestCase
from harness.graphs import verify_aot
from harness.graphs.rebindings import bindings_of, rebindings
from suites.selftest.graphs.verifying import Changed, Function, VerifyTestCase

Batch = dict[str, Any]


def ones() -> torch.Tensor:
    """A tensor of two ones."""
    return torch.ones(2)


class Counts(torch.nn.Module):  # type: ignore[misc]  # torch is untyped to mypy here
    """A module that counts its calls in a buffer, which each call replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.count: torch.Tensor
        self.register_buffer("count", torch.zeros(()))

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        """Replace the count and return a product."""
        self.count = self.count + 1
        return a * 2


class RebindingTest(VerifyTestCase):
    """``verify_aot`` with functions that rebind, and with compiled functions that do or do not."""

    def test_lost(self) -> None:
        """A replaced tensor or number, an added item and a removed one are found if lost when compiled."""

        def replaces(d: Batch) -> Any:
            d["x"] = d["x"] * 2
            return d["x"] + 1

        def renumbers(d: Batch) -> Any:
            d["n"] = 7
            return d["x"] + 1

        def appends(items: list[Any]) -> Any:
            items.append(items[0])
            return items[0] + 1

        def drops(d: Batch) -> Any:
            return d.pop("x") + 1

        for function, given, text in (
            (replaces, {"x": ones()}, "input 0 (d)['x']: is what it was compiled, another tensor in eager"),
            (renumbers, {"x": ones(), "n": 3}, "input 0 (d)['n']: is what it was compiled, 7 in eager"),
            (
                appends,
                [ones()],
                "input 0 (items)[1]: is not there compiled, a new tensor that shares memory with "
                "input 0 (items)[0] in eager",
            ),
            (drops, {"x": ones()}, "input 0 (d)['x']: is what it was compiled, gone in eager"),
        ):
            with self.subTest(function.__name__):
                self.assertDiffers(
                    text, function=function, inputs=[given], requires_grad=None, test_mutation=False
                )

    def test_lost_buffer(self) -> None:
        """A buffer that is not replaced is found."""
        self.assertDiffers(
            "buffer count: is what it was compiled, another tensor in eager",
            function=Counts(),
            inputs=[ones()],
            requires_grad=None,
            test_mutation=False,
        )

    def test_done(self) -> None:
        """Rebinding as in eager passes; another value, type or aliasing is found."""

        def function(d: Batch) -> Any:
            return d["x"] * 2

        def rebinds(value: Callable[[Any], Any]) -> Function:
            def run(d: Batch) -> Any:
                out = function(d)
                if type(d["x"]) is torch.Tensor:  # not as it is traced
                    d["x"], d["n"] = value(d["x"].detach()), float("nan")
                return out

            return run

        def compiled_with(value: Callable[[Any], Any]) -> Changed:
            def call(compiled: Function, eager: Function, arguments: tuple[Any, ...]) -> Any:
                out = compiled(*arguments)
                arguments[0]["x"] = value(arguments[0]["x"].detach())
                return out

            return Changed(call)

        given = [{"x": ones(), "n": float("nan")}]
        verify_aot(rebinds(lambda x: x + 1), given, front_end=compiled_with(lambda x: x + 1))
        for value, text in (
            (
                lambda x: x + 2,
                "input 0 (d)['x'], which is another tensor than before: values differ: at [0] 3.0 compiled, "
                "2.0 in eager (2 of 2 elements)",
            ),
            (lambda x: 3, "input 0 (d)['x']: is 3 compiled, another tensor in eager"),
            (
                lambda x: x[:],
                "input 0 (d)['x']: is another tensor that shares memory with input 0 (d)['x'] compiled, "
                "another tensor in eager",
            ),
        ):
            with self.subTest(text):
                self.assertDiffers(
                    text,
                    function=rebinds(lambda x: x + 1),
                    inputs=given,
                    requires_grad=None,
                    test_mutation=False,
                    front_end=compiled_with(value),
                )


class BindingsTest(TestCase):
    """The functions ``bindings_of`` and ``rebindings``."""

    def test_names(self) -> None:
        """Items of containers and a module's own tensors have names."""
        places = bindings_of(Counts(), [[ones(), 3]])
        self.assertEqual(list(places), ["input 0 (a)[0]", "input 0 (a)[1]", "buffer count"])

    def test_rebound(self) -> None:
        """Equal plain values are no rebinding, other objects only if they are identical."""
        same: Any = object()
        for before, after, wanted in (
            (1, 1, False),
            (1, True, True),
            (float("nan"), float("nan"), False),
            ("a", "b", True),
            (same, same, False),
            (object(), object(), True),
            (None, None, False),
        ):
            with self.subTest(before=before, after=after):
                self.assertEqual(bool(rebindings({"p": before}, {"p": after}, [], [])), wanted)
        x, y = ones(), ones()
        self.assertEqual(rebindings({"x": x}, {"x": x}, [("x", x)], []), {})
        held = rebindings({"x": x}, {"x": y}, [("x", x)], [("the output", y)])["x"]
        self.assertEqual((held.gone, held.memory), (False, ("the output",)))
        self.assertTrue(rebindings({"x": x}, {}, [], [])["x"].gone)


if __name__ == "__main__":
    unittest.main()
