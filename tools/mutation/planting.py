"""Plants a mutant in torch's modules as they are imported, or notes which of their lines each test executes.

    environment: TOOLS_MUTANT=<name of a mutant>   or   TOOLS_LINES=<directory>, TOOLS_LINES_OF=<file>:...
    PYTHONPATH=tools/mutation/site: sitecustomize --> install()   in every Python that starts, before torch
    import of a mutated module --> a loader of ours compiles a changed syntax tree   no file of torch changes
    a statement runs --> executed(line)   noted once for each test, before anything can end the process

Which test runs is said as ``harness/impact/running_test.py`` has it.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import os
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.impact.notes import Notes
from harness.impact.running_test import running_test
from harness.settings import EnvVar

# The name of the mutant to plant.
MUTANT = "TOOLS_MUTANT"
# The directory of the lines that tests execute, and the files that are watched, as os.pathsep joins them.
LINES = "TOOLS_LINES"
LINES_OF = "TOOLS_LINES_OF"
# The name by which watched modules call the function that notes a line.
EXECUTED = "__executed_by_a_test__"
SITE = str(Path(__file__).resolve().parent / "site")

# What a module is compiled from, given its file's name below torch's directory and its source.
Change = Callable[[str, str], ast.Module]


def environ_for_mutant(name: str) -> dict[str, str]:
    """The variables by which every Python that starts with them has this mutant."""
    return {MUTANT: name, **_path()}


def environ_for_lines(directory: Path, files: Sequence[str]) -> dict[str, str]:
    """The variables by which every Python notes the lines of these files that tests execute."""
    return {LINES: str(directory), LINES_OF: os.pathsep.join(files), EnvVar.RUNNING_TEST: "", **_path()}


def _path() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    return {"PYTHONPATH": os.pathsep.join(filter(None, (SITE, root, os.environ.get("PYTHONPATH"))))}


def install(environ: Mapping[str, str]) -> None:
    """Has this process import torch as the environment says; does nothing where it says nothing."""
    if name := environ.get(MUTANT):
        from tools.mutation.sites import mutated

        file = name.partition(":")[0]
        _install({file}, lambda _, source: mutated(source, name), {})
    elif directory := environ.get(LINES):
        files = environ[LINES_OF].split(os.pathsep)
        _install(set(files), lambda file, source: watched(source), probes(Path(directory), files))


def _install(files: set[str], change: Change, probes: Mapping[str, Callable[[int], None]]) -> None:
    sys.meta_path.insert(0, _Finder(files, change, probes))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the changed modules; leaves all others to Python's own finders."""

    def __init__(self, files: set[str], change: Change, probes: Mapping[str, Callable[[int], None]]) -> None:
        self._modules = {module_name(file): file for file in files}
        self._change = change
        self._probes = probes

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """As of every finder: what Python's own finds, with a loader of ours."""
        file = self._modules.get(fullname)
        if file is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path, file, self._change, self._probes.get(file))
        return spec


def module_name(file: str) -> str:
    """The name by which a file below torch's directory is imported."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the changed source, and neither reads nor writes a file of byte code."""

    def __init__(
        self, fullname: str, path: str, file: str, change: Change, probe: Callable[[int], None] | None
    ) -> None:
        super().__init__(fullname, path)
        self._file = file
        self._change = change
        self._probe = probe

    def get_code(self, fullname: str) -> types.CodeType:
        """The code of the changed module; lines and names of files are the source's."""
        source = self.get_source(fullname)
        assert source is not None
        return compile(self._change(self._file, source), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: types.ModuleType) -> None:
        """Runs the module; its statements find the function that notes lines among its globals."""
        if self._probe is not None:
            setattr(module, EXECUTED, self._probe)
        super().exec_module(module)


# -- lines


def watched(source: str) -> ast.Module:
    """The syntax tree of a source in which each statement of a function first says that it is executed."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _watch(node)
    return ast.fix_missing_locations(tree)


def _watch(function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    pending: list[ast.AST] = [function]
    while pending:
        node = pending.pop()
        for _, value in ast.iter_fields(node):
            if not isinstance(value, list) or not value:
                continue
            if isinstance(value[0], ast.stmt):
                value[:] = [part for statement in value for part in _noted(statement)]
            pending += [part for part in value if isinstance(part, ast.ExceptHandler | ast.match_case)]
            pending += [
                part
                for part in value
                if isinstance(part, ast.stmt)
                # Definitions inside are visited by themselves.
                and not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            ]


def _noted(statement: ast.stmt) -> list[ast.stmt]:
    if isinstance(statement, ast.Global | ast.Nonlocal) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    ):
        return [statement]  # a docstring has to stay the first, and none of these does anything
    call = ast.Call(ast.Name(EXECUTED, ast.Load()), [ast.Constant(statement.lineno)], [])
    note = ast.Expr(call)
    ast.copy_location(note, statement)
    return [note, statement]


def probes(directory: Path, files: Sequence[str]) -> dict[str, Callable[[int], None]]:
    """By file, the function that its statements call with their line, to note it for the test that runs.

    An entry is ``<number of the file>:<line>``.
    """
    notes = Notes(directory)
    return {file: _probe(notes, number) for number, file in enumerate(files)}


def _probe(notes: Notes, number: int) -> Callable[[int], None]:
    seen: set[tuple[bytes, int]] = set()

    def executed(line: int) -> None:
        test = running_test()
        if test and (test, line) not in seen:
            seen.add((test, line))
            notes.add(test, b"%d:%d" % (number, line))

    # What torch.compiler.assume_constant_result sets: dynamo calls the function as it traces, and leaves no
    # trace of it in the graph.
    executed._dynamo_marked_constant = True  # type: ignore[attr-defined]  # as the comment says
    return executed
