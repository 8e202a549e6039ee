"""Tests the form of the reasons, which ``docs/migration.rst`` and the migration's messages show."""

from __future__ import annotations

import unittest

from harness.migrate import names
from harness.migrate.reasons import REASONS


class ReasonsTest(unittest.TestCase):
    """The table of reasons."""

    def test_modules(self) -> None:
        """It is about modules that the table of names is about."""
        self.assertLessEqual(REASONS.keys(), names.SAME.keys())

    def test_form(self) -> None:
        """A reason is a part of a sentence in one line, with at least one name."""
        for module, rows in REASONS.items():
            for reason, held in rows:
                with self.subTest(module=module, reason=reason):
                    self.assertNotIn("\n", reason)
                    self.assertFalse(reason.endswith("."))
                    self.assertTrue(held.split())


if __name__ == "__main__":
    unittest.main()
