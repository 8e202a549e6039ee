"""Tests who may import whom: the directions of ARCHITECTURE.rst, on the syntax trees of all modules."""

from __future__ import annotations

import ast
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

import harness

HARNESS = Path(harness.__file__).resolve().parent
# Parts of the package -> the parts that they may import. A part is a subpackage or a top-level module.
BOTTOM = {"errors"}
VALUES = BOTTOM | {"outcomes", "settings", "record"}
WIRE = VALUES | {"protocol", "wire"}
RANK_LAYER: dict[str, set[str]] = {
    "errors": {"outcomes"},  # for the type checker only, see test_errors_at_run_time
    "outcomes": BOTTOM,
    "settings": BOTTOM,
    "record": BOTTOM | {"outcomes"},
    "protocol": BOTTOM | {"outcomes"},
    "wire": BOTTOM,
}
# torch keeps its threaded and fake process groups in torch.testing._internal; dropin is about that package.
MAY_USE_TORCH_INTERNALS = {"dropin", "ranks/threads/torch_groups.py", "ranks/local/rank.py"}


def modules(part: str = "") -> list[Path]:
    """The source files of a part of the package, or of all of it."""
    place = HARNESS / part
    return sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


def imported(path: Path, *, run_time_only: bool = False) -> Iterator[str]:
    """Absolute names of what a file imports anywhere; ``from a import b`` gives both ``a`` and ``a.b``."""
    tree = ast.parse(path.read_text())
    skipped = set(_type_checking_nodes(tree)) if run_time_only else set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None, f"{path}: a relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _type_checking_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for child in node.body:
                yield from ast.walk(child)


def parts_of(path: Path, *, run_time_only: bool = False) -> set[str]:
    """The parts of harness that a file imports."""
    names = {n for n in imported(path, run_time_only=run_time_only) if n.startswith("harness.")}
    return {n.split(".")[1] for n in names}


class DirectionTest(unittest.TestCase):
    """Imports point down the layers."""

    def test_bottom(self) -> None:
        """The values know only what is below them."""
        for part, allowed in RANK_LAYER.items():
            for path in modules(part):
                self.assertLessEqual(parts_of(path), allowed, path)

    def test_errors_at_run_time(self) -> None:
        """The exception tree stands alone: TestOutcome is a name in its annotations only."""
        self.assertEqual(parts_of(HARNESS / "errors.py", run_time_only=True), set())

    def test_nobody_below_knows_the_cases(self) -> None:
        """Nor the runner: launching, supervising and ranks are there for any caller."""
        for part in ("ranks", "communication", "system", "outcomes", "protocol", "wire", "settings"):
            for path in modules(part):
                self.assertEqual(parts_of(path) & {"cases", "runner", "dropin", "graphs"}, set(), path)

    def test_runner_and_report(self) -> None:
        """The runner knows the reports, the reports do not know the runner."""
        for path in modules("report"):
            self.assertNotIn("runner", parts_of(path), path)

    def test_torch_internals(self) -> None:
        """torch.testing._internal only where it is the matter."""
        for path in modules():
            if any(name.startswith("torch.testing._internal") for name in imported(path)):
                own = path.relative_to(HARNESS).with_suffix("" if path.stem == "dropin" else ".py")
                self.assertTrue({str(own), own.parts[0]} & MAY_USE_TORCH_INTERNALS, own)

    def test_no_torch_in_the_controller(self) -> None:
        """The runner and the reports never import torch."""
        for part in ("runner", "report", "outcomes", "settings", "record", "errors", "protocol", "wire"):
            for path in modules(part):
                self.assertFalse([n for n in imported(path) if n.split(".")[0] == "torch"], path)

    def test_every_file_is_looked_at(self) -> None:
        """The checks above are over something."""
        self.assertGreater(len(modules("ranks")), 5)
        self.assertGreater(len(modules()), 50)


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
        """Importing all of the runner and the reports brings no torch."""
        names = [p for part in ("runner", "report") for p in modules(part) if p.name != "__init__.py"]
        statements = [
            f"import harness.{'.'.join(p.relative_to(HARNESS).with_suffix('').parts)}" for p in names
        ]
        self.assertNotIn("torch", self.loaded("\n".join(statements)))


if __name__ == "__main__":
    unittest.main()
