"""Tests which statements a program of views has, and that a line is read as the statement that it is."""

from __future__ import annotations

import unittest

from harness.graphs.view_program_lines import COMPUTED, METADATA, VIEWS, WRITES, Lines, Statement

SETUP = ("y0 = torch.arange(4.0).view(2, 2)",)


class StatementTest(unittest.TestCase):
    def test_a_line_is_read_as_it_was_written(self) -> None:
        for template in (*VIEWS, *WRITES, *METADATA, *COMPUTED):
            second = "b" if "{1}" in template else "t3"
            made = Statement(template, "t3", second, template in WRITES + COMPUTED, "t10")
            if not made.makes:
                made = Statement(template, "t3", second, made.no_grad, "")
            with self.subTest(made.line):
                self.assertEqual(Statement.of(made.line), made)

    def test_other_lines(self) -> None:
        for line in ("a.cos()", "t0 = a.mul_(2)", "t0 = a.view_as(b)"):
            with self.subTest(line), self.assertRaisesRegex(ValueError, "of no template"):
                Statement.of(line)


class LinesTest(unittest.TestCase):
    def added(self, arguments: tuple[str, ...], *lines: str) -> list[str]:
        made = Lines(SETUP, arguments, ("a", "b"))
        for line in lines:
            made.add(Statement.of(line))
        return made.lines

    def test_no_write_reads_another_view_of_what_it_writes(self) -> None:
        """So that eager's result does not depend on an order: of a row that a column is added to, say."""
        for arguments, kept in (
            (("y0[1]", "y0[:, 0]"), []),
            (("y0[1]", "y0[0]"), ["a.add_(b)"]),
            (("y0[1]", "y0[1]"), ["a.add_(b)"]),
        ):
            with self.subTest(arguments):
                self.assertEqual(self.added(arguments, "a.add_(b)"), kept)

    def test_what_eager_refuses_is_left_out_and_what_uses_it(self) -> None:
        found = self.added(("y0", "y0[0]"), "t0 = b.view_as(b)", "t1 = t0[0]", "t2 = t1[0]", "t3 = t2.sin()")
        self.assertEqual(found, ["t0 = b.view_as(b)", "t1 = t0[0]"])

    def test_metadata(self) -> None:
        """It is changed of arguments that have no views, and where there is something to change."""
        whole = ("y0", "y0.clone()")
        self.assertEqual(self.added(whole, "a.t_()"), ["a.t_()"])
        self.assertEqual(self.added(whole, "a.squeeze_(0)"), [])
        self.assertEqual(self.added(whole, "t0 = a[0]", "a.t_()"), ["t0 = a[0]"])
        self.assertEqual(self.added(whole, "t0 = a.clone()", "t0.t_()"), ["t0 = a.clone()"])

    def test_outputs(self) -> None:
        lines = Lines(SETUP, ("y0", "y0[0]"), ("a", "b"))
        for line in ("t0 = a.sin()", "t1 = t0[0]", "t2 = b.view(-1)"):
            lines.add(Statement.of(line))
        self.assertEqual(lines.outputs(["a", "t2"], metadata=False, shared=False), ["a", "t2"])
        self.assertEqual(lines.outputs(["a", "t0", "t1", "t2"], metadata=False, shared=True), ["a", "t0"])
        self.assertEqual(lines.outputs(["a", "t1"], metadata=True, shared=False), ["t1"])
        self.assertEqual(lines.outputs(["a"], metadata=True, shared=False), ["last"])
        self.assertEqual(lines.lines[-1], "last = a * 3")


if __name__ == "__main__":
    unittest.main()
