"""Tests the programs that are made of others: near them, each kind of change among them, and allowed."""

from __future__ import annotations

import random
import unittest

from harness.graphs import ViewProgram
from harness.graphs.view_program_changes import changed

PROGRAM = ViewProgram(
    setup=("x0 = torch.arange(1.0, 5).reshape((2, 2)).clone().requires_grad_()", "y0 = x0 * 1"),
    leaves=("x0",),
    arguments=("y0.t()", "y0[0]"),
    parameters=("a", "b"),
    body=("t0 = a.sin()", "b.mul_(2)", "t2 = t0 + b"),
    outputs=("t2",),
)
COUNT = 300


def changes(**options: bool) -> list[ViewProgram]:
    """Programs made of ``PROGRAM``."""
    choice = random.Random(0)
    return [changed(PROGRAM, choice, **options) for _ in range(COUNT)]


class ChangedTest(unittest.TestCase):
    def test_each_kind_of_change(self) -> None:
        found = changes()
        for what, there in (
            ("a template", any("t0 = a.sum()" in each.body for each in found)),
            ("operands", any("a.mul_(2)" in each.body for each in found)),
            ("a further statement", any(len(each.body) > len(PROGRAM.body) for each in found)),
            ("an order", any(each.body[:2] == PROGRAM.body[1::-1] for each in found)),
            ("no_grad", any("no_grad" in line for each in found for line in each.body)),
            ("a shape", any("reshape((2, 3))" in each.setup[0] for each in found)),
            ("no grad", any("requires_grad_" not in each.setup[0] for each in found)),
            ("an argument", any(each.arguments == ("y0.t()", "y0.detach()") for each in found)),
            ("outputs", any(set(each.outputs) == {"t2", "t0"} for each in found)),
        ):
            self.assertTrue(there, what)

    def test_most_of_it_is_kept(self) -> None:
        """Of two changes each may leave out what no longer makes sense, and nothing else is lost."""
        same = [len(set(each.body) & set(PROGRAM.body)) for each in changes()]
        self.assertGreater(sum(same) / COUNT, 1.8)

    def test_what_is_switched_off_does_not_come(self) -> None:
        plain = changes(metadata=False, shared=False, no_grad=False)
        text = "\n".join(each.source for each in plain)
        for word in ("no_grad", "t_()", "squeeze_(0)", "transpose_"):
            self.assertNotIn(word, text)
        self.assertEqual({each.arguments for each in plain} - {PROGRAM.arguments, ("y0", "y0[0]")}, set())

    def test_they_return_what_they_have(self) -> None:
        for each in changes():
            function, inputs = each.functions()
            with self.subTest(each.source):
                self.assertEqual(len(function(*inputs()[1])), len(each.outputs))


if __name__ == "__main__":
    unittest.main()
