"""Tests that every public helper of the installed torch has a counterpart or a reason."""

from __future__ import annotations

import ast
import importlib.util
import unittest
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import harness
from harness.migrate import names


def defined(body: list[ast.stmt]) -> Iterator[str]:
    """The public functions, classes and constants of a module, also those under a condition."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (each.id for target in node.targets for each in elements(target))
        elif isinstance(node, ast.AnnAssign):
            yield from (each.id for each in elements(node.target))
        elif isinstance(node, ast.If | ast.Try | ast.With):
            for part in ("body", "orelse", "handlers"):
                for each in getattr(node, part, ()):
                    yield from defined(each.body if isinstance(each, ast.ExceptHandler) else [each])


def elements(target: ast.expr) -> Iterator[ast.Name]:
    """The names to which an assignment's target assigns: ``a, b = ...`` has two, ``a.b = ...`` none."""
    if isinstance(target, ast.Name):
        yield target
    elif isinstance(target, ast.Tuple):
        for each in target.elts:
            yield from elements(each)


class NamesTest(unittest.TestCase):
    """What the tables have."""

    def test_installed_torch(self) -> None:
        spec = importlib.util.find_spec(names.HOME)
        assert spec is not None and spec.origin is not None
        for module in names.COMPLETE:
            source = Path(spec.origin).parent / module.replace(".", "/")
            file = source / "__init__.py" if source.is_dir() else source.with_suffix(".py")
            known = {row.name for row in names.rows() if row.module == module}
            body = ast.parse(file.read_text(encoding="utf-8")).body
            found = {name for name in defined(body) if not name.startswith("_")}
            self.assertTrue(found, module)
            missing = sorted(found - known)
            self.assertEqual(
                missing,
                [],
                f"this torch has new names in {module}: add each to SAME of harness/migrate/names.py or, "
                "with a reason, to REASONS beside it, and run python -m tools.migration_table",
            )

    def test_counterparts_exist(self) -> None:
        wanted = {row.counterpart for row in names.rows() if row.counterpart}
        self.assertLessEqual(wanted, set(harness.__all__))

    def test_no_name_twice(self) -> None:
        twice = [key for key, count in Counter((r.module, r.name) for r in names.rows()).items() if count > 1]
        self.assertEqual(twice, [])

    def test_find(self) -> None:
        """A name that a module only imports from another is found too."""
        dtensor = f"{names.HOME}.distributed._tensor.common_dtensor"
        self.assertEqual(names.find(dtensor, "skip_if_lt_x_gpu").counterpart, "skip_if_lt_x_gpu")
        self.assertIsNone(names.find(dtensor, "no_such_name").counterpart)
        self.assertTrue(names.is_known_module(dtensor))
        self.assertFalse(names.is_known_module(f"{names.HOME}.common_device_type"))


if __name__ == "__main__":
    unittest.main()
