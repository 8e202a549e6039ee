"""``leading_imports``: what a test's module imports before it does anything else.

Ranks that import the module themselves, because it does something else in a child, are forked from a server
that has imported these modules already; only the module's own statements run in each rank.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import sys


@functools.cache
def leading_imports(module_name: str) -> tuple[str, ...]:
    """The modules that an imported module's first import statements name, as far as they are imported here.

    Nothing where the module has no source that can be read.
    """
    module = sys.modules.get(module_name)
    try:
        source = inspect.getsource(module) if module is not None else ""
    except (OSError, TypeError):
        return ()
    named = names_in(source, getattr(module, "__package__", None) or "")
    return tuple(name for name in named if name in sys.modules)


def names_in(source: str, package: str) -> tuple[str, ...]:
    """The full names in the import statements above the first statement that is neither import nor docstring.

    ``from a import b`` names both ``a`` and ``a.b``, which may be a module. A source that cannot be parsed
    names nothing.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return ()
    names: dict[str, None] = {}
    for statement in body:
        if isinstance(statement, ast.Import):
            names.update(dict.fromkeys(alias.name for alias in statement.names))
        elif isinstance(statement, ast.ImportFrom):
            if home := _home(statement, package):
                names.update(dict.fromkeys((home, *(f"{home}.{alias.name}" for alias in statement.names))))
        elif not _is_docstring(statement):
            break
    return tuple(names)


def _home(statement: ast.ImportFrom, package: str) -> str:
    """The full name of the module that is imported from; "" for one that is above the top package."""
    relative = "." * statement.level + (statement.module or "")
    try:
        return importlib.util.resolve_name(relative, package)
    except ImportError:
        return ""


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
