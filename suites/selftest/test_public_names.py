"""``from harness import ...``: every public name is there, is what it says, and costs no torch."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
import types
import unittest

import harness


class PublicNames(unittest.TestCase):
    """What ``harness/__init__.py`` offers."""

    def test_each_is_its_home_s(self) -> None:
        """Also when all modules are loaded already: a module of the same name would stand in its place."""
        for name, home in harness._HOME.items():
            with self.subTest(name):
                expected = getattr(importlib.import_module(home), name)
                self.assertIs(getattr(harness, name), expected)
                self.assertNotIsInstance(expected, types.ModuleType)

    def test_none_is_called_like_a_module(self) -> None:
        modules = {module.name for module in pkgutil.iter_modules(harness.__path__)}
        self.assertFalse(modules & set(harness.__all__))

    def test_type_checkers_see_the_same(self) -> None:
        """The names that are imported for them only are those that users get."""
        tree = ast.parse(inspect.getsource(harness))
        told = {
            alias.asname: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("harness.")
            for alias in node.names
        }
        self.assertEqual(told, harness._HOME)

    def test_unknown_name(self) -> None:
        with self.assertRaisesRegex(AttributeError, "no attribute 'nothing_of_the_kind'"):
            harness.nothing_of_the_kind  # noqa: B018 - the access is the test

    def test_import_alone_loads_no_torch(self) -> None:
        code = "import harness, sys; dir(harness); sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], check=False).returncode, 0)


if __name__ == "__main__":
    unittest.main()
