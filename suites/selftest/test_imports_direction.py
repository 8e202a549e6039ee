"""Tests which part of harness may import which, by a table of floors, and what an import loads."""

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

HARNESS = Path(harness.__file__).resolve().parent


class Part(NamedTuple):
    """A part of harness. Its modules may import each other, and what ``uses`` names.

    ``modules`` are modules and packages, without "harness."; a module belongs to the part that names the
    longest beginning of its name. ``uses`` names parts, or a single module where the rest of its part is out
    of bounds.
    """

    name: str
    modules: tuple[str, ...]
    uses: tuple[str, ...]


VALUES = (
    *(
        "outcomes",
        "errors",
        "settings",
        "setting_values",
        "variables",
        "environment",
        "record",
        "field_checks",
        "protocol",
        "wire",
        "tracebacks",
        "communication_call",
        "call_columns",
        "frames",
        "pytest_outcomes",
        "bazel_command",
        "source_digests",
        "conformance_features",
    ),
    "tolerances",  # of dtypes by name
)
TEST_CASE = (
    *("testcase", "comparison", "tensors", "tensor_difference", "parametrization"),
    *("expected_output", "accepted_output", "hypothesis_examples"),
)
LOW = ("values", "process state")
RANK_MODES = ("ranks.processes", "ranks.threads", "ranks.external", "ranks.local", "ranks.hosts")
FOR_RANKS = (*LOW, "system", "communication", "rank_merging")

# The floors from the bottom up: a part may use only what stands above it in this list.
TABLE = (
    Part("values", VALUES, ()),
    Part(
        "process state",
        ("seeding", "releases", "compiler_state", "coverage_hook", "watched_method"),
        ("values",),
    ),
    Part("system", ("system",), ("values",)),
    # Of the system what a test may have replaced when it fails.
    Part("test case", TEST_CASE, (*LOW, "system.originals")),
    Part("communication", ("communication",), (*LOW, "system.after_import")),
    # As low as this, because the text of a failure is a report and is also what a test raises. Of what ranks
    # communicate it shows what belongs together.
    Part("report", ("report",), ("values", "communication.matching")),
    # Which files tests execute, noted in workers and ranks, and which tests a change can affect.
    Part("impact", ("impact",), ("values", "report.text")),
    # What a project's file says, as values; read by every way into tests.
    Part("configuration", ("configuration",), ("values",)),
    # How the hosts of a run find and know each other, and what they say.
    Part("hosts", ("hosts",), ("values",)),
    # Of the system the limits under which it runs, and how GPUs are counted in what is to be forked.
    Part(
        "requirements",
        ("requirements",),
        ("values", "seeding", "hosts", "system.control_group", "system.accelerators", "system.gpu_count"),
    ),
    # What is tested: values that a plugin writes, read in the runner's processes and in ranks.
    Part("targets", ("targets",), ("values", "releases", "requirements", "configuration")),
    # What tests say that they try, recorded in ranks, and the reports that the runner makes of it.
    Part("conformance", ("conformance",), ("values", "communication.values", "report", "system", "targets")),
    # Models for test authors, and for the cases that train them. They move to the device that was found.
    Part("models", ("models",), (*LOW, "requirements")),
    # How the outcomes of ranks become a test's: what they communicated is a part of that.
    Part("rank_merging", ("rank_merging",), ("values", "communication")),
    # What all rank modes share, then the modes, none of which knows another, then the file that chooses.
    Part("ranks", ("ranks",), (*FOR_RANKS, "hosts")),
    # Of targets what each process that imports a test's module imports before it.
    Part(
        "ranks.processes",
        ("ranks.processes",),
        (*FOR_RANKS, "ranks", "targets.plugin", "conformance.cells", "impact"),
    ),
    Part("ranks.threads", ("ranks.threads",), (*FOR_RANKS, "ranks", "conformance.cells")),
    # It prints the text of a failure before it ends a process whose test cannot be interrupted.
    Part("ranks.external", ("ranks.external",), (*FOR_RANKS, "hosts", "ranks", "report.failure")),
    Part("ranks.local", ("ranks.local",), (*FOR_RANKS, "ranks")),
    # The modes of ranks that are processes, on other hosts.
    Part("ranks.hosts", ("ranks.hosts",), (*FOR_RANKS, "hosts", "ranks", "ranks.processes")),
    # Their counterpart on each host.
    Part(
        "agent",
        ("agent",),
        (*FOR_RANKS, "hosts", "requirements", "ranks", "ranks.processes", "ranks.hosts"),
    ),
    Part("ranks.modes", ("ranks.modes",), ("values", "ranks", *RANK_MODES)),
    Part(
        "cases",
        ("cases",),
        (
            *(*FOR_RANKS, "test case", "report.failure", "requirements", "models"),
            *("ranks", *RANK_MODES, "ranks.modes", "conformance.cells", "targets"),
        ),
    ),
    # Libraries for test authors. The fuzzer's programs run in a case's ranks; graphs needs no ranks.
    Part("graphs", ("graphs",), LOW),
    # Of communication what a collective computes.
    Part(
        "fuzzing",
        ("fuzzing",),
        (
            *(*LOW, "test case", "requirements", "targets", "ranks.modes", "ranks.local", "cases"),
            *("communication.reference", "communication.element_types"),
            "graphs",  # traced train steps and functions of views are fuzzed
        ),
    ),
    # Of ranks what it changes: how a result is judged, and which module a rank imports. As pytest and the
    # runner do, it pauses garbage collections while it imports.
    Part(
        "dropin",
        ("dropin",),
        (
            *LOW,
            *("requirements", "ranks.result", "ranks.processes.module_import", "cases"),
            *("system.garbage", "system.standard_output"),
        ),
    ),
    # Ranks that run, seen from outside.
    Part("look", ("look",), ("values", "communication", "system")),
    # Of ranks their deadlines alone: a worker's deadline leaves room for them. The zygote prepares what
    # records communication, once for all servers of ranks that are forked below it.
    Part(
        "runner",
        ("runner",),
        (
            *(*LOW, "report", "requirements", "system", "ranks.deadlines", "targets", "conformance", "hosts"),
            *("configuration", "look", "communication.warm_up", "impact"),
        ),
    ),
    # Hooks of pytest: what a test is comes from the cases, what it takes and which shard it is in from the
    # runner, and the server from which ranks are forked is started before any fixture.
    Part(
        "pytest_plugin",
        ("pytest_plugin",),
        (
            *(
                *LOW,
                "report",
                "runner",
                "ranks.modes",
                "ranks.warning_filters",
                "cases.rank_function",
                "cases.ranks_mark",
            ),
            *("system.fork_safety", "system.processors", "system.garbage", "system.runner_settings"),
            "targets",
            "configuration",
        ),
    ),
    # A script on ranks takes of the cases how a verdict is told, of the runner its exit codes.
    Part(
        "run",
        ("run",),
        (
            *(*FOR_RANKS, "report.failure", "ranks", "ranks.processes"),
            *("cases.verdict", "runner.exit_codes", "configuration", "look"),
        ),
    ),
    # Reads the directories of runs, and writes one as a run does.
    Part("merge", ("merge",), ("values", "report", "conformance", "impact", "runner")),
    # Tries on ranks, as a script's, what a backend can do, and writes a target.
    Part(
        "target_draft",
        ("target_draft",),
        (*FOR_RANKS, "targets", "ranks", "ranks.processes"),
    ),
    # Rewrites files; knows of the rest by names in its tables. Which modules have to be imported in ranks is
    # the drop-in's decision.
    Part("migrate", ("migrate",), ("values", "system", "dropin.child_code")),
    # run_tests() and load_tests, which a test module calls: they are a way into the runner.
    Part(
        "module_main",
        ("module_main",),
        (*LOW, "test case", "runner", "targets", "configuration", "system.standard_output"),
    ),
    # The package itself, which resolves its public names when they are used, and says what one lacks
    # elsewhere than on Linux.
    Part("harness", ("",), ("errors",)),
)
# This part may import everything where only the type checker reads it.
FOR_THE_TYPE_CHECKER = "harness"

# Imports by import_module that the table does not allow: the importer and what it imports. A drop-in run
# gives torch's cases our ranks before it imports a test's module; other runs do not load dropin.
BY_NAME = {
    ("runner.listing", "dropin"),
    ("runner.listing", "runner.pytest_listing"),  # imports pytest, which only some modules need
    ("runner.worker", "runner.pytest_worker"),
    ("runner.cli", "run.cli"),  # `torch-harness run`, which runs no test
    ("runner.cli", "migrate.cli"),  # `torch-harness migrate`, the same
    ("runner.cli", "conformance.cli"),  # `torch-harness conformance`, the same
    ("runner.cli", "merge.cli"),  # `torch-harness merge`, the same
    ("runner.cli", "target_draft.cli"),  # `torch-harness target`, the same
    ("runner.cli", "look.cli"),  # `torch-harness look`, the same
    ("pytest_plugin.plugin", "dropin"),
    ("ranks.processes.module_import", "dropin"),
    ("ranks.processes.preload", "tensors"),  # where a test has imported torch, before ranks are forked
}
# torch keeps its threaded and fake process groups in torch.testing._internal; dropin is about that package.
TORCH_INTERNALS = {"dropin", "ranks.threads.torch_groups", "ranks.local.rank", "cases.fake_groups"}
WITHOUT_TORCH = {
    "values",
    "report",
    "conformance",
    "system",
    "runner",
    "look",
    "run",
    "migrate",
    "merge",
    "pytest_plugin",
    "configuration",
}


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
                "from harness.runner import unit",
                "report may import values, communication.matching",
            ),
            ("runner.unit", "from harness.ranks.job import Job", "ranks.job is of ranks"),
            ("runner.unit", 'importlib.import_module("harness.cases.verdict")', "cases.verdict is of cases"),
            ("runner.unit", "def f():\n  import torch.fx", "runner does without torch"),
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
            ("runner.invocation", "from harness.ranks.deadlines import Limits"),
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
        """Top-level modules that are loaded after a statement."""
        code = f"{statement}\nimport sys\nprint(*{{n.partition('.')[0] for n in sys.modules}})"
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

    def test_runner(self) -> None:
        """Importing all of the runner, of the reports and of what starts scripts brings no torch."""
        parts = ("runner", "report", "run", "migrate", "conformance", "configuration")
        statements = [f"import harness.{name}" for name in MODULES if part_of(name).name in parts]
        self.assertNotIn("torch", self.loaded("\n".join(statements)))


if __name__ == "__main__":
    unittest.main()
