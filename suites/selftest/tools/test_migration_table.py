"""Tests that docs/migration.rst shows the tables that the migration uses."""

from __future__ import annotations

import unittest

from harness.migrate import names
from tools.migration_table import PAGE, page


class PageTest(unittest.TestCase):
    """The page in the tree."""

    def test_is_up_to_date(self) -> None:
        self.assertEqual(PAGE.read_text(encoding="utf-8"), page(), "run python -m tools.migration_table")

    def test_has_every_name(self) -> None:
        text = page()
        self.assertEqual([row.name for row in names.rows() if f"``{row.name}``" not in text], [])


if __name__ == "__main__":
    unittest.main()
