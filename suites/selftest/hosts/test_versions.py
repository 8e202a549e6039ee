"""Tests what is compared of hosts, and how a difference is told."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

import torch

from harness.hosts.versions import differences, versions


class VersionsTest(unittest.TestCase):
    """``versions`` of this host."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.tree = Path(directory.name)
        (self.tree / "package").mkdir()
        (self.tree / "package" / "module.py").write_text("one = 1\n")

    def test_torch(self) -> None:
        """torch's version is that which torch says of itself, with its commit."""
        told = versions(self.tree)["torch"]
        self.assertTrue(told.startswith(torch.__version__), told)
        self.assertIn(str(torch.version.git_version)[:8], told)

    def test_tree(self) -> None:
        """A changed, a renamed and a new file make another tree; what is no code of the project does not."""
        known = {versions(self.tree)["the source tree"]}
        for name, text in (("package/module.py", "one = 2\n"), ("package/other.py", ""), ("more.py", "")):
            (self.tree / name).write_text(text)
            told = versions(self.tree)["the source tree"]
            self.assertNotIn(told, known, name)
            known.add(told)
        for name in (".hidden/module.py", "build/module.py", "package/data.txt"):
            (self.tree / name).parent.mkdir(exist_ok=True)
            (self.tree / name).write_text("text")
        self.assertEqual(versions(self.tree)["the source tree"], told)

    def test_differences(self) -> None:
        """Each thing that differs, or is known of one side only, has a line."""
        self.assertEqual(differences({"a": "1", "b": "2"}, {"a": "1", "b": "2"}), [])
        told = differences({"a": "1", "b": "2"}, {"a": "3", "c": "4"})
        self.assertEqual(
            told,
            ["a is 3 there and 1 here", "b is unknown there and 2 here", "c is 4 there and unknown here"],
        )


if __name__ == "__main__":
    unittest.main()
