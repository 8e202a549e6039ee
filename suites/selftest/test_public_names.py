"""``from harness import ...`` and its like: each name is there, is what it says, and costs no torch."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import types
import unittest
from pathlib import Path
from typing import TYPE_CHECKING

import harness
import harness.graphs

UPSTREAM = Path(__file__).parents[2] / "docs" / "upstream.rst"

if TYPE_CHECKING:
    Case = unittest.TestCase
else:
    Case = object


class Names(Case):
    """What a package offers by names that are resolved when they are first used."""

    package: types.ModuleType

    def test_each_is_its_home_s(self) -> None:
        """Also when all modules are loaded already: a module of the same name would stand in its place."""
        for name, home in self.package._HOME.items():
            with self.subTest(name):
                expected = getattr(importlib.import_module(home), name)
                self.assertIs(getattr(self.package, name), expected)
                self.assertNotIsInstance(expected, types.ModuleType)

    def test_none_is_called_like_a_module(self) -> None:
        modules = {module.name for module in pkgutil.iter_modules(self.package.__path__)}
        self.assertFalse(modules & set(self.package.__all__))

    def test_type_checkers_see_the_same(self) -> None:
        """The names that are imported for them only are those that users get."""
        tree = ast.parse(inspect.getsource(self.package))
        told = {
            alias.asname: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("harness.")
            for alias in node.names
        }
        self.assertEqual(told, self.package._HOME)

    def test_unknown_name(self) -> None:
        with self.assertRaisesRegex(AttributeError, "no attribute 'nothing_of_the_kind'"):
            self.package.nothing_of_the_kind  # noqa: B018 - the access is the test

    def test_dir(self) -> None:
        """It lists what is offered, and nothing that the module needs for itself."""
        listed = {name for name in dir(self.package) if not name.startswith("__")}
        self.assertEqual(listed, set(self.package.__all__))

    def test_import_alone_loads_no_torch(self) -> None:
        name = self.package.__name__
        code = f"import {name}, sys; dir({name}); sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], check=False).returncode, 0)


class PublicNames(Names, unittest.TestCase):
    """The names that ``harness`` offers."""

    package = harness

    def test_upstreams(self) -> None:
        """Each that the table of upstream's names in ``docs/upstream.rst`` calls the same here."""
        rows = re.findall(r"^(``.*?) +the same names?$", UPSTREAM.read_text(encoding="utf-8"), re.MULTILINE)
        told = {name.rpartition(".")[2] for row in rows for name in re.findall(r"``([\w.]+)``", row)}
        self.assertLessEqual({"MultiProcessTestCase", "DEVICE_TYPE", "_dynamo_dist_per_rank_init"}, told)
        self.assertLessEqual(told, set(harness.__all__))


class GraphsNames(Names, unittest.TestCase):
    """Those for tests of graphs."""

    package = harness.graphs


if __name__ == "__main__":
    unittest.main()
