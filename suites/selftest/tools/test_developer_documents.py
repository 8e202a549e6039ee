"""Tests that ARCHITECTURE.rst and CONTRIBUTING.rst name real files and describe every part of the harness."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[3]


class DeveloperDocumentsTest(unittest.TestCase):
    """The two documents by which a stranger finds the right file."""

    def test_every_file_exists(self) -> None:
        """Each file that is named exists: in the tree, below ``harness``, or a module of this bare name."""
        bare = {path.name for part in ("harness", "suites/selftest") for path in (TREE / part).rglob("*.py")}
        for document in ("ARCHITECTURE.rst", "CONTRIBUTING.rst"):
            named = set(re.findall(r"``([\w./]*\w\.(?:py|rst|txt|html))``", text_of(document)))
            self.assertGreater(len(named), 20)
            for path in named:
                with self.subTest(document, path=path):
                    somewhere = any((root / path).is_file() for root in (TREE, TREE / "harness"))
                    self.assertTrue(somewhere or path in bare)

    def test_every_part_has_a_row(self) -> None:
        """Each package of ``harness`` and each module at its top has a row that says what it owns."""
        rows = set(re.findall(r"(?m)^``([\w./]+)``  +\S", text_of("ARCHITECTURE.rst")))
        packages = {path.parent.relative_to(TREE) for path in (TREE / "harness").rglob("*/__init__.py")}
        modules = {path.name for path in (TREE / "harness").glob("*.py")} - {"__init__.py"}
        self.assertLessEqual({*map(str, packages), *modules}, rows)


def text_of(document: str) -> str:
    """The text of a document at the root of the tree."""
    return (TREE / document).read_text(encoding="utf-8")


if __name__ == "__main__":
    unittest.main()
