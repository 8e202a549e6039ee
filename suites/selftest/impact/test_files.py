"""Tests how maps and changes call files."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

import torch

from harness.errors import UsageError
from harness.impact.files import Roots, roots_of


class RootsTest(unittest.TestCase):
    """``Roots``, of a project and of torch."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.project = Path(temporary.name).resolve() / "project"
        self.torch = Path(temporary.name).resolve() / "lib/site-packages/torch"
        for file in (self.project / "app/sums.py", self.project / "app/a.cpp", self.torch / "nn.py"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        self.roots = Roots(self.project, {"torch": self.torch})

    def test_names(self) -> None:
        """A file below a directory has a name, by which its place is found; no other has one."""
        for path, name in (
            (self.project / "app/sums.py", "app/sums.py"),
            (self.torch / "nn.py", "torch/nn.py"),
        ):
            self.assertEqual((self.roots.name(path), self.roots.path(name)), (name, path))
        for path in (self.project / ".venv/lib/site-packages/a.py", Path("/etc/passwd")):
            self.assertIsNone(self.roots.name(path))

    def test_named(self) -> None:
        """A user names a file by its path from where he is, or as torch's; others are refused."""
        for text, name in (
            ("sums.py", "app/sums.py"),
            (str(self.torch / "nn.py"), "torch/nn.py"),
            ("torch/nn.py", "torch/nn.py"),
            ("a.cpp", "app/a.cpp"),
            ("torch/csrc/gone.cpp", "torch/csrc/gone.cpp"),
        ):
            self.assertEqual(self.roots.named(text, self.project / "app"), name)
        for text, words in (("nothere.py", "no such file"), ("/etc/passwd", "nor below")):
            with self.assertRaisesRegex(UsageError, words):
                self.roots.named(text, self.project)

    def test_here(self) -> None:
        """torch's, the harness's and the suites' own files have the names of their packages."""
        tree = Path(__file__).resolve().parents[3]
        roots = roots_of(self.project, tree)
        for path in (tree / "harness/run.py", tree / "suites/planting.py"):
            self.assertEqual(roots.name(path), path.relative_to(tree).as_posix())
        self.assertEqual(roots.name(Path(torch.__file__).resolve()), "torch/__init__.py")

    def test_wheel(self) -> None:
        """The suites in a wheel, below the harness, have the names that they have in the checkout."""
        bundled = Path(__file__).resolve().parents[3] / "harness" / "bundled"
        roots = roots_of(self.project, bundled)
        path = bundled / "suites" / "c10d" / "test_stores.py"
        self.assertEqual(roots.name(path), "suites/c10d/test_stores.py")


if __name__ == "__main__":
    unittest.main()
