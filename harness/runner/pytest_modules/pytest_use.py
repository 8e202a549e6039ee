"""Decides whether a test module has to run through pytest: what it, a ``conftest.py`` or a setting asks for.

Such a module has marks, fixtures, test functions or skips of pytest's, which unittest would ignore without a
word. A module that uses pytest for ``pytest.raises`` and the like alone is unittest's, and so is one that
does not use it at all; pytest is not imported for either.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import types
import unittest
from collections.abc import Collection, Iterator
from pathlib import Path

# What means the same without pytest's runner.
INDEPENDENT = frozenset(
    ("raises", "warns", "deprecated_call", "approx", "RaisesGroup", "RaisesExc", "ExceptionInfo", "main")
)
# Files that make their directory pytest's root directory, and what has to stand in them.
_CONFIGURATION = {
    "pytest.toml": "",
    ".pytest.toml": "",
    "pytest.ini": "",
    ".pytest.ini": "",
    "pyproject.toml": "[tool.pytest",
    "tox.ini": "[pytest]",
    "setup.cfg": "[tool:pytest]",
}
# Directories of these files are pytest's root directory where no file configures it.
_PROJECT_FILES = ("pyproject.toml", "setup.py")
# Settings that change what is a test, whether it can be imported, or what its verdict is, in modules that do
# not mention pytest.
_DECIDING = re.compile(
    r"^[ \t]*(python_functions|python_classes|usefixtures|filterwarnings|pythonpath)\s*=|--doctest-modules",
    re.M,
)
# In every source that needs pytest's runner by what it says itself.
_PERHAPS = re.compile(r"^(?:async )?def test|^\s*(?:import|from) +(?:.*\b)?pytest\b", re.M)
_FIXTURES = "_pytest.fixtures"


def use_in_source(source: str) -> str:
    """What of pytest's runner a module's source needs, in words; "" where that cannot be seen in it."""
    if not _PERHAPS.search(source):  # parsing takes longer than the rest
        return ""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ""  # the import tells of it
    functions = [n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    tests = [name for name in functions if name.startswith("test")]
    if tests and "load_tests" not in functions:
        return f"the test function {tests[0]}"
    names = sorted(_names_of_pytest(tree) - INDEPENDENT)
    return f"pytest.{names[0]}" if names else ""


def _names_of_pytest(tree: ast.Module) -> set[str]:
    """The names that a source takes from the module ``pytest``."""
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    aliases = {
        (alias.asname or alias.name)
        for node in imports
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "pytest"
    }
    taken = {
        alias.name
        for node in imports
        if isinstance(node, ast.ImportFrom) and node.module == "pytest"
        for alias in node.names
    }
    return taken | {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases
    }


def use_in_module(module: types.ModuleType, functions: Collection[object] = ()) -> str:
    """What of pytest's runner an imported module needs, in words; "" for nothing.

    ``functions`` are those that unittest has found as tests, by the module's ``load_tests``.
    """
    members = dict(vars(module))
    if "pytestmark" in members:
        return "pytestmark"
    classes = [value for value in members.values() if isinstance(value, type)]
    bases = {base for cls in classes if issubclass(cls, unittest.TestCase) for base in cls.__mro__}
    for name, value in members.items():
        if _is_fixture(value):
            return f"the fixture {name}"
        if isinstance(value, types.FunctionType) and name.startswith("test") and value not in functions:
            if getattr(value, "__test__", True):
                return f"the test function {name}"
        elif isinstance(value, type) and issubclass(value, unittest.TestCase):
            if _has_marks(value):
                return f"marks or fixtures in {name}"
        elif isinstance(value, type) and name.startswith("Test") and value not in bases and _is_plain(value):
            return f"the class {name}"
    return ""


def _is_fixture(value: object) -> bool:
    """True for a fixture: an object of pytest's, or with old releases a function with a note of pytest's."""
    return type(value).__module__ == _FIXTURES or (
        isinstance(value, types.FunctionType) and "_pytestfixturefunction" in vars(value)
    )


def _has_marks(cls: type) -> bool:
    own = [base for base in cls.__mro__ if base.__module__ != "unittest.case"]
    return any(
        name == "pytestmark" or _is_fixture(value) or "pytestmark" in getattr(value, "__dict__", ())
        for base in own
        for name, value in vars(base).items()
        if not isinstance(value, type)
    )


def _is_plain(cls: type) -> bool:
    """Whether pytest takes a class that is no TestCase for one of tests."""
    if not getattr(cls, "__test__", True) or getattr(cls, "__init__", None) is not object.__init__:
        return False
    return any(name.startswith("test") and callable(getattr(cls, name, None)) for name in dir(cls))


def use_around(file: Path, cwd: Path) -> tuple[str, tuple[str, ...]]:
    """What in the directories of a test file needs pytest, in words or "", and the files that say so.

    A ``conftest.py`` with any code counts, up to pytest's root directory, for its hooks, fixtures or effects.
    """
    return _use_around(file.parent, cwd)


@functools.cache
def _use_around(directory: Path, cwd: Path) -> tuple[str, tuple[str, ...]]:
    root = root_directory(directory, cwd)
    conftests = [d / "conftest.py" for d in _up_to(directory, root) if (d / "conftest.py").is_file()]
    telling = [path for path in conftests if _has_code(_text(path))]
    settings = [path for path in _configuration(root) if _DECIDING.search(_text(path))]
    found = tuple(str(path) for path in (*telling, *settings))
    return (os.path.relpath(found[0], cwd) if found else ""), found


def root_directory(directory: Path, cwd: Path) -> Path:
    """The directory up to which pytest looks for ``conftest.py``, as pytest finds it for one argument."""
    above = (directory, *directory.parents)
    for parent in above:
        if _configuration(parent):
            return parent
    for name in _PROJECT_FILES:
        for parent in above:
            if (parent / name).is_file():
                return parent
    common = Path(os.path.commonpath([directory, cwd]))
    return directory if common == common.parent else common


def _configuration(directory: Path) -> list[Path]:
    paths = ((directory / name, needed) for name, needed in _CONFIGURATION.items())
    return [path for path, needed in paths if path.is_file() and (not needed or needed in _text(path))]


def _up_to(directory: Path, root: Path) -> Iterator[Path]:
    for parent in (directory, *directory.parents):
        yield parent
        if parent == root:
            return


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _has_code(source: str) -> bool:
    """Whether a source has more than comments, a docstring and ``from __future__`` imports."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return True
    return not all(
        (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.ImportFrom) and node.module == "__future__")
        for node in body
    )
