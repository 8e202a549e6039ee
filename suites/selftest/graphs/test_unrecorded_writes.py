"""Tests which arguments are said to be written to where autograd records nothing."""

from __future__ import annotations

import unittest
from typing import Any

import torch

from harness.graphs.unrecorded_writes import unrecorded_writes

WRITES = (
    *("a.mul_(2)", "a += 1", "a[0] = 7", "torch._foreach_add_([a], 2)", "torch.mul(a, 3, out=a)"),
    *("t = a.view(-1); t.mul_(2)", "a.detach().mul_(2)"),
)


def found(body: str) -> tuple[str, ...]:
    """What is found of a body whose argument ``b`` is a view of ``a``, and ``c`` of nothing."""
    scope: dict[str, Any] = {"torch": torch}
    exec(f"def f(a, b, c):\n    {body}", scope)
    first, other = torch.arange(4.0).requires_grad_() * 1, torch.ones(4).requires_grad_() * 1
    return unrecorded_writes(scope["f"], [first, first.view(2, 2), other], "abc")


class UnrecordedWritesTest(unittest.TestCase):
    def test_written(self) -> None:
        """Named are the argument and the view of it that is an argument, too, and not the other one."""
        for context in ("torch.no_grad()", "torch.inference_mode()", "torch.set_grad_enabled(False)"):
            for write in WRITES:
                with self.subTest(context=context, write=write):
                    self.assertEqual(("a", "b"), found(f"with {context}: {write}"))

    def test_not_written(self) -> None:
        """Writes that are recorded, writes to tensors of the function's own, and no write at all."""
        for body in (
            *(write for write in WRITES if "out=" not in write),
            "with torch.no_grad(): t = a + 1; t.mul_(2)",
            "with torch.no_grad(): t = a.clone(); t[0] = 1",
            "with torch.no_grad(), torch.enable_grad(): a.mul_(2)",
            "with torch.no_grad(): return a.sin(), b.t()",
        ):
            with self.subTest(body=body):
                self.assertEqual((), found(body))

    def test_both(self) -> None:
        """A recorded write beside it changes nothing."""
        self.assertEqual(("c",), found("a.mul_(2); torch.no_grad()(c.add_)(a); b.add_(1)"))


if __name__ == "__main__":
    unittest.main()
