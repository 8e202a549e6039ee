"""Tests what is done when a module is first imported."""

from __future__ import annotations

import importlib
import sys
import tempfile
import unittest
from pathlib import Path

from harness.system.after_import import after_import

NAME = "imported_by_test_after_import"


class AfterImportTest(unittest.TestCase):
    """``after_import``, with a module that this test writes."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        Path(directory.name, f"{NAME}.py").write_text("value = 1\n")
        sys.path.insert(0, directory.name)
        self.addCleanup(sys.path.remove, directory.name)
        self.addCleanup(sys.modules.pop, NAME, None)
        importlib.invalidate_caches()
        self.seen: list[int] = []

    def see(self) -> None:
        self.seen.append(sys.modules[NAME].value)

    def test_once(self) -> None:
        """The action comes after the module's own code, before the import ends, and not for a reload."""
        before = [*sys.meta_path]
        with after_import(NAME, self.see):
            importlib.import_module("colorsys")
            self.assertEqual(self.seen, [])
            module = importlib.import_module(NAME)
            self.assertEqual(self.seen, [1])
            assert module.__spec__ is not None
            self.assertNotIn("exec_module", vars(module.__spec__.loader))
        self.assertEqual(sys.meta_path, before)
        importlib.reload(module)
        self.assertEqual(self.seen, [1])

    def test_after_the_region(self) -> None:
        with after_import(NAME, self.see):
            pass
        importlib.import_module(NAME)
        self.assertEqual(self.seen, [])

    def test_another_list_of_finders(self) -> None:
        """The region ends in order where its code has put another list in ``sys.meta_path``."""
        before = sys.meta_path
        self.addCleanup(setattr, sys, "meta_path", [*before])
        with after_import(NAME, self.see):
            sys.meta_path = before[1:]
        self.assertEqual(sys.meta_path, before[1:])

    def test_absent(self) -> None:
        """A module that nobody finds is an ImportError as ever."""
        with after_import("no_such_module_anywhere", self.see), self.assertRaises(ModuleNotFoundError):
            importlib.import_module("no_such_module_anywhere")

    def test_raising(self) -> None:
        """What the action raises comes out of the import, as what the module raises would."""

        def fail() -> None:
            raise ZeroDivisionError

        with after_import(NAME, fail), self.assertRaises(ZeroDivisionError):
            importlib.import_module(NAME)
        self.assertNotIn(NAME, sys.modules)
