"""Tests which scripts and modules are found, with which ``sys.path``, and that none is imported."""

from __future__ import annotations

import os
import sys
import unittest
from unittest import mock

from harness.errors import UsageError
from harness.run.script import find
from suites.selftest.run.scripts import ScriptCase


class FindTest(ScriptCase):
    """Targets in a directory of scripts, by their path or name."""

    def setUp(self) -> None:
        """Goes to the test's directory."""
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.directory)

    def test_script(self) -> None:
        """The first entry of the path is the script's real folder, in place of this process's own."""
        self.write("deep/train.py", "")
        os.symlink("deep/train.py", "link.py")
        with mock.patch.object(sys, "path", ["/bin", "/lib"]):
            for target in ("deep/train.py", "./deep/../deep/train.py", "link.py"):
                with self.subTest(target):
                    self.assertEqual(find(target, by_name=False), [str(self.directory / "deep"), "/lib"])

    def test_module(self) -> None:
        """The first entry is the working directory; packages are looked into and not imported."""
        body = "raise AssertionError('imported')"
        for name in ("one.py", "pkg/__init__.py", "pkg/mod.py", "pkg/__main__.py", "space/mod.py"):
            self.write(name, body)
        with mock.patch.object(sys, "path", ["/bin", *sys.path[1:]]):
            for name in ("one", "pkg", "pkg.mod", "space.mod", "json.tool"):
                with self.subTest(name):
                    self.assertEqual(find(name, by_name=True)[0], str(self.directory))

    def test_safe_path(self) -> None:
        """Under -P Python puts no folder in front, and takes none away."""
        self.write("train.py", "")
        flags = mock.Mock(safe_path=True)
        with mock.patch.object(sys, "path", ["/lib"]), mock.patch.object(sys, "flags", flags):
            self.assertEqual(find("train.py", by_name=False), ["/lib"])

    def test_not_there(self) -> None:
        """What cannot be run is an error of one line before anything is started."""
        self.write("pkg/__init__.py", "")
        self.write("pkg/train.py", "")
        for target, by_name, said in (
            ("train.py", False, "no script 'train.py'"),
            ("pkg", False, "is a directory"),
            ("pkg.train", False, "-m pkg.train"),
            ("pkg", True, "no __main__"),
            ("pkg.other", True, "no module 'pkg.other'"),
            ("pkg.train.more", True, "no module"),
            ("nowhere.train", True, "no module"),
            ("train.py", True, "no module"),
            ("pkg/train.py", True, "write the name of a module"),
        ):
            with self.subTest(target), self.assertRaises(UsageError) as caught:
                find(target, by_name=by_name)
            self.assertIn(said, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
