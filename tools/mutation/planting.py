"""Plants a mutant in torch's modules as they are imported, or notes which of their lines each test executes.

    environment: TOOLS_MUTANT=<name of a mutant>   or   TOOLS_LINES=<directory>, TOOLS_LINES_OF=<file>:...
    PYTHONPATH=tools/mutation/site: sitecustomize --> install()   in every Python that starts, before torch
    import of a mutated module --> a loader of ours compiles a changed syntax tree   no file of torch changes
    a statement runs --> executed(line)   noted once for each test, before anything can end the process

Which test runs is said by ``SUITES_RUNNING``, which ``suites/planting.py`` sets and ranks inherit.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import os
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

# The name of the mutant to plant.
MUTANT = "TOOLS_MUTANT"
# The directory of the lines that tests execute, and the files that are watched, as os.pathsep joins them.
LINES = "TOOLS_LINES"
LINES_OF = "TOOLS_LINES_OF"
# As in suites/planting.py, which is not imported before it has to be; encoded as os.environ keeps it.
RUNNING = b"SUITES_RUNNING"
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
    return {LINES: str(directory), LINES_OF: os.pathsep.join(files), **_path()}


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
        lines = ExecutedLines(Path(directory), files)
        _install(set(files), lambda file, source: watched(source), {f: lines.of(f) for f in files})


def _install(files: set[str], change: Change, probes: Mapping[str, Callable[[int], None]]) -> None:
    sys.meta_path.insert(0, _Finder(files, change, probes))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the changed modules; leaves all others to Python's own finders."""

    def __init__(self, files: set[str], change: Change, probes: Mapping[str, Callable[[int], None]]) -> None:
        self._modules = {_module(file): file for file in files}
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


def _module(file: str) -> str:
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


class ExecutedLines:
    """Writes which lines each test executes: a file for each process, an entry for each line's first time.

    An entry is ``<number of the file>:<line>``, after one ``@<test>`` that says which test executes the
    following ones. Each is one write, so that nothing is lost with a process that dies of what comes next.
    """

    def __init__(self, directory: Path, files: Sequence[str]) -> None:
        self._directory = directory
        self._numbers = {file: number for number, file in enumerate(files)}
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Begins anew in this process, whose parent has another file."""
        self._lock = threading.RLock()  # ranks may be threads, and a signal's handler may come in between
        self._seen: dict[bytes, set[tuple[int, int]]] = {}
        self._last = b""

    def of(self, file: str) -> Callable[[int], None]:
        """The function that a file's statements call with their line."""
        number = self._numbers[file]
        # Each statement looks the test up. That takes a tenth of the time of os.environ.get.
        variables: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]  # as the comment says

        def executed(line: int) -> None:
            test = variables.get(RUNNING)
            if test is not None and (line, number) not in self._seen.get(test, ()):
                self._note(test, number, line)

        # What torch.compiler.assume_constant_result sets: dynamo calls the function as it traces, and leaves
        # no trace of it in the graph.
        executed._dynamo_marked_constant = True  # type: ignore[attr-defined]  # as the comment says
        return executed

    def _note(self, test: bytes, number: int, line: int) -> None:
        with self._lock:
            self._seen.setdefault(test, set()).add((line, number))
            said = b"%d:%d\n" % (number, line)
            if test != self._last:
                said = b"@%b\n%b" % (test, said)
            self._last = test
            # Opened each time: a test may count its process's descriptors, or close them.
            fd = os.open(self._directory / f"{os.getpid()}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                os.write(fd, said)
            finally:
                os.close(fd)
