"""``graph_text``: the text of a graph, which depends on the graph alone."""

from __future__ import annotations

import unittest
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from harness import TestCase
from harness.graphs import graph_text


def traced(function: Any, *arguments: Any) -> torch.fx.GraphModule:
    """The graph of ``function`` on ``arguments``."""
    module: torch.fx.GraphModule = make_fx(function)(*arguments)
    return module


class TextTest(TestCase):
    """The text of traced graphs."""

    def test_lines(self) -> None:
        """Operators with overloads, constants, lists, dtypes, items and returned containers are printed."""

        def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            values, _ = torch.max(x, 0)
            return torch.cat([x, x], 1).to(torch.float64), values * 2.5

        self.assertExpectedInline(
            graph_text(traced(f, torch.ones(2, 3))),
            """\
forward(x_1)
  max_1 = aten.max.dim(x_1, 0)
  getitem = max_1[0]
  getitem_1 = max_1[1]
  cat = aten.cat.default([x_1, x_1], 1)
  _to_copy = aten._to_copy.default(cat, dtype=float64)
  mul = aten.mul.Tensor(getitem, 2.5)
  return (_to_copy, mul)""",
        )

    def test_line_numbers(self) -> None:
        """The same function on other source lines has the same text."""
        texts = {
            graph_text(traced(function, torch.ones(2)))
            for function in (
                lambda x: x.sin() + 1,
                lambda x: (
                    x.sin()  # further down
                    + 1
                ),
            )
        }
        self.assertEqual(len(texts), 1)

    def test_devices(self) -> None:
        """Devices are numbered, so that the text is the same on all of them, but copies between two show."""

        def f(device: str) -> str:
            return graph_text(traced(lambda: torch.ones(2, device=device).to("meta")))

        self.assertExpectedInline(
            f("cpu"),
            """\
forward()
  ones = aten.ones.default([2], device=device0, pin_memory=False)
  _to_copy = aten._to_copy.default(ones, dtype=float32, layout=strided, device=device1)
  return _to_copy""",
        )
        self.assertNotIn("device1", f("meta"))

        with torch.device("meta"):
            on_meta = graph_text(traced(lambda: torch.ones(2)))
        self.assertEqual(on_meta, graph_text(traced(lambda: torch.ones(2))))

    def test_shapes(self) -> None:
        """With ``shapes`` each value has the dtype and sizes that tracing recorded."""
        self.assertExpectedInline(
            graph_text(traced(lambda x: x @ x.t(), torch.ones(2, 3)), name="product", shapes=True),
            """\
product(x_1: float32[2, 3])
  t: float32[3, 2] = aten.t.default(x_1)
  mm: float32[2, 2] = aten.mm.default(x_1, t)
  return mm""",
        )

    def test_wrapped(self) -> None:
        """A long line is cut between arguments."""
        text = graph_text(traced(lambda x: torch.cat([x] * 40), torch.ones(1)))
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        self.assertEqual("".join(text.split()).count("x_1,"), 39)

    def test_sub_graphs(self) -> None:
        """Nested graphs follow their graph."""

        def f(x: torch.Tensor) -> Any:
            return torch.cond(x.sum() > 4, lambda x: (x.sin(),), lambda x: (x.cos(),), (x,))

        self.assertExpectedInline(
            graph_text(traced(f, torch.ones(3))),
            """\
forward(x_1)
  sum_1 = aten.sum.default(x_1)
  gt = aten.gt.Scalar(sum_1, 4)
  true_graph_0 = self.true_graph_0
  false_graph_0 = self.false_graph_0
  cond = cond(gt, true_graph_0, false_graph_0, (x_1,))
  getitem = cond[0]
  return (getitem,)

forward.true_graph_0(arg0_1)
  sin = aten.sin.default(arg0_1)
  return (sin,)

forward.false_graph_0(arg0_1)
  cos = aten.cos.default(arg0_1)
  return (cos,)""",
        )

    def test_other_nodes(self) -> None:
        """Modules, methods, attributes, keyword arguments, slices and Python functions are printed."""

        class Module(torch.nn.Module):  # type: ignore[misc]  # torch is untyped to mypy here
            def __init__(self) -> None:
                super().__init__()
                self.linear = torch.nn.Linear(2, 2)
                self.scale = torch.nn.Parameter(torch.ones(1))

            def forward(self, x: torch.Tensor) -> dict[str, Any]:
                return {"out": self.linear(x).mul(self.scale)[1:, 0], "sum": torch.sum(x, dim=(0,))}

        self.assertExpectedInline(
            graph_text(torch.fx.symbolic_trace(Module())),
            """\
forward(x)
  linear = self.linear(x)
  scale = self.scale
  mul = .mul(linear, scale)
  getitem = mul[(1:None:None, 0)]
  sum_1 = sum(x, dim=(0,))
  return {'out': getitem, 'sum': sum_1}""",
        )


if __name__ == "__main__":
    unittest.main()
