"""Tests the RST of tables, and that a table replaces the one between its marks in a document."""

import unittest

from tools.simple_table import Table, as_rst, placed


class AsRst(unittest.TestCase):
    """The function ``as_rst``, which formats a table."""

    def test_columns_line_up_under_their_rules(self) -> None:
        """Each column starts where its rule of ``=`` starts, as RST's simple tables need it."""
        bar = "=============  ="
        lines = as_rst(Table(("measured", "b"), (("one", "2"), ("three hundred", "")))).splitlines()
        self.assertEqual(lines, [bar, "measured       b", bar, "one            2", "three hundred", bar])

    def test_a_dash_is_no_bullet(self) -> None:
        """A cell that is a dash alone is escaped, and others are not."""
        lines = as_rst(Table(("a", "b"), (("x", "-"), ("-2", "-")))).splitlines()
        self.assertEqual(lines[3:5], [r"x   \-", r"-2  \-"])


class Placed(unittest.TestCase):
    """The function ``placed``, which writes a table into a document."""

    def test_only_what_is_between_the_marks_is_replaced(self) -> None:
        """Other text, other marks, and a backslash in the table stay as they are."""
        before = "A\n\n.. other begins\n\nx\n\n.. other ends\n\n.. matrix begins\n"
        after = ".. matrix ends\n\nB\n"
        for old in ("", "\nold\n\n"):
            with self.subTest(old=old):
                self.assertEqual(
                    placed(f"{before}{old}{after}", "matrix", r"new \1"), f"{before}\nnew \\1\n\n{after}"
                )

    def test_a_document_without_the_marks_is_refused(self) -> None:
        """One mark, none, both in the wrong order, or each twice is a ValueError that names them."""
        begins, ends = ".. matrix begins\n", ".. matrix ends\n"
        for document in ("", begins, ends, f"{ends}{begins}", f"x {begins}{ends}", 2 * f"{begins}{ends}"):
            with self.subTest(document=document), self.assertRaisesRegex(ValueError, "matrix begins"):
                placed(document, "matrix", "new")
