"""Tests the inputs of programs of views: their lines, and that they are read of them again."""

from __future__ import annotations

import unittest

from harness.graphs.view_program_inputs import ARGUMENTS, SHAPES, ViewInputs


class ViewInputsTest(unittest.TestCase):
    def test_lines(self) -> None:
        inputs = ViewInputs(
            (((2, 2), True), ((3,), False)), ((0, "{0}[1:]"), (1, "{0}"), (1, "{0}.detach()"))
        )
        self.assertEqual(
            inputs.lines(),
            (
                (
                    "x0 = torch.arange(1.0, 5).reshape((2, 2)).clone().requires_grad_()",
                    "y0 = x0 * 1",
                    "x1 = torch.arange(11.0, 14).reshape((3,)).clone()",
                    "y1 = x1 * 1",
                ),
                ("x0", "x1"),
                ("y0[1:]", "y1", "y1.detach()"),
            ),
        )

    def test_a_template_that_does_not_fit_is_the_base(self) -> None:
        _, _, arguments = ViewInputs((((3,), False),), ((0, "{0}[:, 0]"),)).lines()
        self.assertEqual(arguments, ("y0",))

    def test_they_are_read_of_their_lines(self) -> None:
        for shape in SHAPES:
            for template in ARGUMENTS[:4]:
                inputs = ViewInputs(((shape, False), ((2, 2), True)), ((0, template), (1, "{0}.t()")))
                setup, _, arguments = inputs.lines()
                with self.subTest(arguments, shape=shape):
                    self.assertEqual(ViewInputs.of(setup, arguments), inputs)


if __name__ == "__main__":
    unittest.main()
