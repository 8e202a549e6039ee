"""Tests which part of harness may import which, by a table, and what an import loads."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import harness
from suites.selftest.parts_of_harness import (
    BY_NAME,
    FOR_THE_TYPE_CHECKER,
    RANK_MODES,
    TABLE,
    TORCH_INTERNALS,
    WITHOUT_TORCH,
    Part,
)

HARNESS = Path(harness.__file__).resolve().parent


class Import(NamedTuple):
    """One name that a module imports: ``name`` is absolute, ``how`` is "load", "call", "types" or "name"."""

    line: int
    name: str
    how: str


def modules() -> dict[str, Path]:
    """The file of each module of harness by its name without "harness."; "" is harness itself."""
    found = {}
    for path in sorted(HARNESS.rglob("*.py")):
        parts = path.relative_to(HARNESS).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(tree: ast.AST, how: str = "load") -> Iterator[Import]:
    """What a syntax tree imports, in functions and for the type checker too; ``how`` is for its top level."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name, how) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            beginning = "." * node.level + (node.module or "")
            yield from (Import(node.lineno, f"{beginning}.{alias.name}", how) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            if node.args and isinstance(node.args[0], ast.Constant):
                yield Import(node.lineno, str(node.args[0].value), "name")
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from imports(ast.Module(node.body, []), "types")
            yield from imports(ast.Module(node.orelse, []), how)
            continue
        within = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and how == "load"
        yield from imports(node, "call" if within else how)


def module_of(name: str) -> str | None:
    """The module of harness, without "harness.", that an absolute name is in; None for another package's."""
    if name.partition(".")[0] != "harness":
        return None
    inner = name.partition(".")[2]
    while inner not in MODULES:
        inner = inner.rpartition(".")[0]
    return inner


def part_of(module: str) -> Part:
    """The part that a module of harness belongs to."""
    beginnings = [
        (len(each), part)
        for part in TABLE
        for each in part.modules
        if each == module or (each and module.startswith(f"{each}."))
    ]
    if not beginnings:
        raise AssertionError(f"{MODULES[module]} belongs to no part of TABLE: say where it stands")
    return max(beginnings, key=lambda each: each[0])[1]


def mistakes(module: str, source: str) -> list[str]:
    """The imports in ``source``, taken for the text of ``module``, that break a rule: one line each."""
    part, lines = part_of(module), []
    for each in imports(ast.parse(source)):
        rule = _broken_rule(module, part, each)
        if rule is not None:
            file = MODULES[module].relative_to(HARNESS.parent)
            lines.append(f"{file}:{each.line} imports {each.name}: {rule}")
    return lines


def _broken_rule(module: str, part: Part, each: Import) -> str | None:
    top = each.name.partition(".")[0]
    if top in ("", "suites", "tools", "run_tests"):
        return "harness imports by absolute names, and neither the suites nor the tools"
    if top == "torch" and part.name in WITHOUT_TORCH:
        return f"{part.name} does without torch"
    if each.name.startswith("torch.testing._internal") and not {module, part.name} & TORCH_INTERNALS:
        return f"torch.testing._internal is for {', '.join(sorted(TORCH_INTERNALS))} only"
    imported = module_of(each.name)
    if imported is None or (each.how == "types" and part.name == FOR_THE_TYPE_CHECKER):
        return None
    if imported == "":
        return None if each.name == "harness" else "import it from the module that defines it"
    if each.how == "name" and (module, imported) in BY_NAME:
        return None
    theirs = part_of(imported).name
    if theirs == part.name or {theirs, imported} & set(part.uses):
        return None
    return f"{part.name} may import {', '.join(part.uses) or 'nothing'}, and {imported} is of {theirs}"


def imported_by(module: str) -> list[tuple[Import, str]]:
    """The imports of a module that are of harness, each with the module that it is of."""
    found = imports(ast.parse(MODULES[module].read_text(encoding="utf-8")))
    return [(each, of) for each in found if (of := module_of(each.name)) is not None]


def cycle(graph: dict[str, set[str]]) -> str:
    """A chain of modules of which each imports the next, back to the first; "" where there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return " imports ".join(reversed(error.args[1]))
    return ""


class DirectionTest(unittest.TestCase):
    """Imports point down the layers."""

    def test_imports(self) -> None:
        """Every import, also in functions, is of the module's own part or of what that part may use."""
        found = [
            each
            for name, path in MODULES.items()
            for each in mistakes(name, path.read_text(encoding="utf-8"))
        ]
        if found:
            self.fail("\n" + "\n".join(found))

    def test_no_cycle(self) -> None:
        """No module imports itself by way of others; an import inside a function counts."""
        graph = {
            module: {of for each, of in imported_by(module) if each.how in ("load", "call")} - {module}
            for module in MODULES
            if module
        }
        found = cycle(graph)
        if found:
            self.fail(f"modules import each other: {found}")

    def test_table_points_down(self) -> None:
        """A part uses only what stands above it in the table, so no two parts import each other."""
        known: set[str] = set()
        for part in TABLE:
            for name in part.uses:
                with self.subTest(part.name, uses=name):
                    self.assertIn(name if name in known else part_of(name).name, known)
                    self.assertTrue(name in known or name in MODULES, "neither a part nor a module")
            known.add(part.name)

    def test_every_module_has_a_part(self) -> None:
        """Each module stands somewhere in the table, and each name in the table is a module."""
        self.assertGreater(len(MODULES), 150)
        for module in MODULES:
            part_of(module)
        self.assertLessEqual({each for part in TABLE for each in part.modules}, set(MODULES))
        folders = {
            f"ranks.{path.name}" for path in (HARNESS / "ranks").iterdir() if (path / "__init__.py").exists()
        }
        self.assertEqual(folders, set(RANK_MODES), "each folder of ranks is a part of its own")

    def test_exceptions_are_used(self) -> None:
        """A single module that a part may use is used, and so is each exception to the rules."""
        for part in TABLE:
            used = {of for module in MODULES if part_of(module) is part for _, of in imported_by(module)}
            single = {name for name in part.uses if name not in {each.name for each in TABLE}}
            self.assertEqual(
                single - used, set(), f"{part.name} does not import these: TABLE need not say so"
            )
        by_name = {(m, of) for m in MODULES for each, of in imported_by(m) if each.how == "name"}
        self.assertEqual(by_name, BY_NAME)
        for name in TORCH_INTERNALS:
            files = [path for module, path in MODULES.items() if name in (module, part_of(module).name)]
            self.assertTrue(
                any("torch.testing._internal" in p.read_text(encoding="utf-8") for p in files), name
            )


class MistakeTest(unittest.TestCase):
    """What the checks say of imports that break a rule."""

    def test_broken_rules(self) -> None:
        """The message names the file, the line, the import and the rule."""
        for module, source, rule in (
            ("settings", "import harness.ranks.job", "values may import nothing, and ranks.job is of ranks"),
            ("ranks.job", "from harness.cases import defaults", "cases.defaults is of cases"),
            ("ranks.job", "def f():\n from harness import module_main", "module_main is of module_main"),
            ("ranks.job", "from harness.ranks.local import mode", "ranks.local.mode is of ranks.local"),
            ("ranks.job", "if TYPE_CHECKING:\n import harness.cases.verdict", "cases.verdict is of cases"),
            ("ranks.threads.rank", "import harness.ranks.local.rank", "ranks.local.rank is of ranks.local"),
            ("ranks.threads.rank", "import harness.ranks.modes", "ranks.modes is of ranks.modes"),
            (
                "report.text",
                "from harness.runner.scheduling import unit",
                "report may import values, communication.analysis.matching",
            ),
            ("runner.scheduling.unit", "from harness.ranks.job import Job", "ranks.job is of ranks"),
            (
                "runner.scheduling.unit",
                'importlib.import_module("harness.cases.verdict")',
                "cases.verdict is of cases",
            ),
            ("runner.scheduling.unit", "def f():\n  import torch.fx", "runner does without torch"),
            ("graphs.aot", "import torch.testing._internal.common_utils", "torch.testing._internal is for"),
            ("graphs.aot", "from harness import TestCase", "import it from the module that defines it"),
            ("graphs.aot", "from . import capture", "absolute names"),
            ("graphs.aot", "import suites.inductor", "neither the suites"),
            ("", "from harness import outcomes", "harness may import errors, and outcomes is of values"),
        ):
            with self.subTest(module, source=source):
                (line,) = mistakes(module, source)
                self.assertIn(rule, line)
                number = source.count("\n") + 1
                self.assertIn(f"{MODULES[module].relative_to(HARNESS.parent)}:{number} imports ", line)

    def test_kept_rules(self) -> None:
        """Imports of the module's own part, of what its part uses and of other packages are no mistakes."""
        for module, source in (
            ("ranks.job", "import os, torch, harness"),
            ("ranks.job", "from harness.ranks import deadlines"),
            ("ranks.modes", "from harness.ranks.local.mode import LocalRanks"),
            ("runner.command_line.invocation", "from harness.ranks.deadlines import Limits"),
            ("dropin.classes", "import torch.testing._internal.common_utils"),
            ("", "if TYPE_CHECKING:\n from harness.cases.verdict import judge"),
        ):
            with self.subTest(module, source=source):
                self.assertEqual(mistakes(module, source), [])

    def test_cycle(self) -> None:
        """A cycle is told as the chain of its modules, in the order in which they import each other."""
        self.assertEqual(cycle({"a": {"b"}, "b": set()}), "")
        self.assertIn(cycle({"a": {"b"}, "b": {"a"}}), ("a imports b imports a", "b imports a imports b"))


class WeightTest(unittest.TestCase):
    """What an import brings with it, in a process of its own."""

    def loaded(self, statement: str) -> set[str]:
        """Modules and packages that are loaded after a statement."""
        code = f"{statement}\nimport sys\nprint(*sys.modules)"
        root = str(HARNESS.parent)
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
        )
        return set(run.stdout.split())

    def test_harness(self) -> None:
        """Neither torch nor numpy, nor any of the libraries that only the runner needs."""
        heavy = {"torch", "numpy", "rich", "jinja2", "hypothesis", "psutil", "junitparser"}
        self.assertEqual(self.loaded("import harness") & heavy, set())

    def test_base_class(self) -> None:
        """A test module that needs no torch gets none with its base class, nor asyncio by way of mock."""
        heavy = {"torch", "numpy", "asyncio"}
        self.assertEqual(self.loaded("from harness import MultiProcessTestCase") & heavy, set())

    def test_controller(self) -> None:
        """What few runs need is not imported by all."""
        rare = {"tomllib", "tomli", "statistics", "importlib.metadata", "harness.look", "rich", "junitparser"}
        self.assertEqual(self.loaded("import harness.runner.command") & rare, set())

    def test_runner(self) -> None:
        """Importing all of the runner, of the reports and of what starts scripts brings no torch."""
        parts = ("runner", "report", "run", "migrate", "conformance", "configuration")
        statements = [f"import harness.{name}" for name in MODULES if part_of(name).name in parts]
        self.assertNotIn("torch", self.loaded("\n".join(statements)))


if __name__ == "__main__":
    unittest.main()
