"""Tests the digests of sources: the same content wherever it lies, and another one for any change."""

from __future__ import annotations

import unittest
from pathlib import Path

from harness import source_digests
from suites.selftest.runner import runs


class DigestTest(unittest.TestCase):
    """Two copies of a tree."""

    def setUp(self) -> None:
        self.trees = [self.tree(), self.tree()]

    def tree(self) -> Path:
        """Makes a directory with a test module, its helper and a sub-package."""
        root = runs.new_directory(self)
        (root / "inner").mkdir()
        for name in ("test_a.py", "helper.py", "inner/__init__.py"):
            (root / name).write_text(f"# {name}\n")
        return root

    def test_of_a_directory(self) -> None:
        """Place and other files do not matter; content and names do."""
        one, other = self.trees
        (other / "notes.txt").write_text("x")
        self.assertEqual(source_digests.below(one), source_digests.below(other))
        changes = (
            lambda: (other / "helper.py").write_text("# changed\n"),
            lambda: (other / "inner" / "__init__.py").rename(other / "inner" / "more.py"),
        )
        for change in changes:
            before = source_digests.below(other)
            change()
            self.assertNotEqual(source_digests.below(other), before)

    def test_of_modules(self) -> None:
        """A module, its helpers and the harness each have a digest; a change is named."""

        def digests(root: Path) -> dict[str, str]:
            return source_digests.of_modules({"p.test_a": root / "test_a.py"})

        one, other = self.trees
        self.assertEqual(list(digests(one)), ["harness", "p/", "p.test_a"])
        self.assertEqual(source_digests.differing(digests(one), digests(other)), ())
        (other / "helper.py").write_text("# changed\n")
        self.assertEqual(source_digests.differing(digests(one), digests(other)), ("p/",))
        (other / "test_a.py").unlink()
        self.assertEqual(source_digests.differing(digests(one), digests(other)), ("p.test_a", "p/"))
        self.assertEqual(source_digests.differing({"a": "1"}, {"b": "2"}), ())


if __name__ == "__main__":
    unittest.main()
