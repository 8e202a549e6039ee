"""Has ranks that import their test's module themselves forked from a process that has not imported it yet.

Such a module would else be imported by the process of its tests and then, in a new interpreter, by the server
of its ranks, and nearly all of that time is what it imports first. That can be imported once: the process
imports it, forks the server, and goes on to import the module.
"""

from __future__ import annotations

import ast
import importlib
import multiprocessing
import os
import sys
import types
from pathlib import Path

from harness.dropin.child_code import asking_line, differs_in_children
from harness.ranks.processes.leading_imports import names_in
from harness.settings import EnvVar
from harness.system.fork_safety import IMPORTED

# Where code that asks which process it is in has found the question.
_HOMES = ("multiprocessing", "multiprocessing.process", "multiprocessing.context", "torch.multiprocessing")
_QUESTIONS = (
    multiprocessing.current_process,
    multiprocessing.parent_process,
    multiprocessing.get_start_method,
)
_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def start_server(module_name: str) -> None:
    """Starts the server of the ranks of a module that is about to be imported; they raise its errors."""
    from harness.cases.multiprocess import RankOrchestration, make_ready  # most files do not ask

    make_ready(RankOrchestration.rank_modes, module_name)


def prepare(module_name: str, file: str) -> bool:
    """Imports what a module in ``file`` imports first; whether a server of its ranks may be forked then.

    So it is under the drop-in where the module asks which process it is in, and a new process that imports
    the same would be like this one: no other module that is imported asks as well, which would have heard
    another answer in a child, and all that a ``conftest.py``, which a child would not import, has done here
    is to define names. False, and nothing is imported, for a module that does not ask.
    """
    if os.environ.get(EnvVar.DROP_IN) != "1" or os.environ.get(EnvVar.HOSTS) or module_name in sys.modules:
        return False
    source = _text(file)
    if asking_line(source) is None or not all(map(only_defines, _conftests())):
        return False
    if not all(_import(name) for name in names_in(source, module_name.rpartition(".")[0])):
        return False
    if any(map(_asks, tuple(sys.modules))):
        return False
    IMPORTED.note()
    return True


def _import(name: str) -> bool:
    """Imports what an import statement names; False where that fails: the module's own import tells of it."""
    home, _, last = name.rpartition(".")
    if last == "*" or hasattr(sys.modules.get(home), last):  # no module of its own
        return True
    try:
        importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a module may raise anything, SystemExit and pytest's skips too
        return False
    return True


def _asks(name: str) -> bool:
    """Whether an imported module, not of Python, torch or harness, may have asked which process it is in.

    One that can has the question among its names; only then is its source read.
    """
    if name.partition(".")[0] in (*sys.stdlib_module_names, "torch", "harness"):
        return False
    questions = {id(each) for each in (*map(sys.modules.get, _HOMES), *_QUESTIONS) if each is not None}
    module = sys.modules.get(name)
    has_it = isinstance(module, types.ModuleType) and any(id(v) in questions for v in vars(module).values())
    return has_it and differs_in_children(name)


def _conftests() -> list[str]:
    """The sources of the conftest files that this process has imported."""
    files = {getattr(module, "__file__", None) or "" for module in tuple(sys.modules.values())}
    return [_text(file) for file in files if os.path.basename(file) == "conftest.py"]


def only_defines(source: str) -> bool:
    """Whether a module's source, by its look, does no more than define names: no statement acts on others.

    Nor is there a hook of pytest's, which acts before the tests are imported.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return False
    return all(_defines(statement) for statement in body)


def _defines(statement: ast.stmt) -> bool:
    if isinstance(statement, _DEFINITIONS):
        return not getattr(statement, "name", "").startswith("pytest_")
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return all(isinstance(t, ast.Name) and not t.id.startswith("pytest_") for t in targets)
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
