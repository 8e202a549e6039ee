"""Tests that a shortened list of names keeps its form."""

from __future__ import annotations

import unittest

import libcst as cst

from harness.migrate.formatting import aliases, only


class OnlyTest(unittest.TestCase):
    """The first and the last of three names."""

    def test_forms(self) -> None:
        for text, first, last in (
            ("from m import a, b, c", "from m import a", "from m import c"),
            ("from m import (a, b, c)", "from m import (a)", "from m import (c)"),
            ("from m import (\n    a,  # x\n    b,\n    c,\n)", "from m import (\n    a,  # x\n)",
             "from m import (\n    c,\n)"),
            ("from m import (\n    a,  # x\n    b,\n    c\n)", "from m import (\n    a,  # x\n)",
             "from m import (\n    c\n)"),
        ):  # fmt: skip
            with self.subTest(text):
                (node,) = cst.ensure_type(cst.parse_statement(text), cst.SimpleStatementLine).body
                node = cst.ensure_type(node, cst.ImportFrom)
                for place, wanted in ((0, first), (-1, last)):
                    found = only(node, [aliases(node)[place]])
                    self.assertEqual(cst.Module([]).code_for_node(found), wanted)


if __name__ == "__main__":
    unittest.main()
