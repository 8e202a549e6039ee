"""Tests what a trial makes of the documented lines, and that they are documented."""

from __future__ import annotations

import textwrap
import unittest
from pathlib import Path

from tools.hosts_recipes import RECIPES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "hosts.rst"
HOSTS = ("10.0.0.1", "10.0.0.2")


class HostsRecipesTest(unittest.TestCase):
    """What recipes say, and become."""

    def test_documented(self) -> None:
        """What a trial runs is in the documentation, line by line."""
        text = PAGE.read_text(encoding="utf-8")
        for recipe in RECIPES:
            with self.subTest(recipe.engine):
                self.assertIn(textwrap.indent(recipe.text, "    "), text)

    def test_filled(self) -> None:
        """Names of hosts, of their file, the number of the host and what runs are put in; nothing else is."""
        for recipe in RECIPES:
            with self.subTest(recipe.engine):
                filled = recipe.filled(1, HOSTS, "/tmp/hosts", ["a test", "b"])
                self.assertTrue(filled.endswith(" 'a test' b"), filled)
                for absent in ("node1", "node2", "hosts.txt", " c10d"):
                    self.assertNotIn(absent, filled)
        torchrun = next(recipe for recipe in RECIPES if recipe.everywhere)
        self.assertIn("--node-rank 1 --master-addr 10.0.0.1", torchrun.filled(1, HOSTS, "", ["a"]))


if __name__ == "__main__":
    unittest.main()
