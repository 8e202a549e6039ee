"""The places of a module's syntax tree that may be mutated: what runs in functions and is no mere message."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

# Calls of these names are for people to read; a fault in one changes no behaviour that a user relies on.
MESSAGES = frozenset(
    (
        *("debug", "info", "warning", "warn", "error", "exception", "critical", "log", "print"),
        *("warning_once", "warn_once", "_warn_once", "log_event", "trace_structured", "deprecated"),
    )
)
# Methods whose result is for people to read.
WORDS = frozenset({"__repr__", "__str__", "__format__", "_pretty_print", "extra_repr"})


@dataclass(frozen=True, slots=True)
class Place:
    """A node, and where it hangs: in ``field`` of ``parent``, at ``index`` where that is a list.

    ``function`` is the qualified name of the function around it, ``line`` that of the innermost statement (of
    its header, for a compound one): if that line runs, so may the node. ``attributes`` has, by the text of an
    object, the attributes that the function reads of it.
    """

    node: ast.AST
    parent: ast.AST
    field: str
    index: int | None
    function: str
    line: int
    attributes: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def put(self, replacement: ast.AST | list[ast.stmt]) -> None:
        """Hangs the replacement, one node or several statements, in the node's place."""
        if self.index is None:
            setattr(self.parent, self.field, replacement)
            return
        several = replacement if isinstance(replacement, list) else [replacement]
        getattr(self.parent, self.field)[self.index : self.index + 1] = several


@dataclass(frozen=True, slots=True)
class _Scope:
    name: str = ""
    inside: bool = False
    line: int = 0
    attributes: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


def places(tree: ast.Module) -> Iterator[Place]:
    """Every node that may be mutated, outer ones before inner ones, always in the same order."""
    yield from _children(tree, _Scope())


def _children(parent: ast.AST, scope: _Scope) -> Iterator[Place]:
    for name, value in ast.iter_fields(parent):
        for index, node in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(node, ast.AST) and not _is_left_out(node, parent, name):
                yield from _of(node, parent, name, index, scope)


def _of(node: ast.AST, parent: ast.AST, name: str, index: int | None, scope: _Scope) -> Iterator[Place]:
    if isinstance(node, ast.stmt):
        scope = replace(scope, line=node.lineno)
    if scope.inside:
        yield Place(node, parent, name, index, scope.name, scope.line, scope.attributes)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        inner = f"{scope.name}.{node.name}" if scope.name else node.name
        if isinstance(node, ast.ClassDef):
            yield from _children(node, _Scope(inner))
        elif not scope.inside:
            # The function itself is a place: it may return early.
            yield Place(node, parent, name, index, inner, first_line(node), {})
            yield from _children(node, _Scope(inner, True, node.lineno, _attributes(node)))
        else:
            yield from _children(node, replace(scope, name=inner))
        return
    yield from _children(node, scope)


def _is_left_out(node: ast.AST, parent: ast.AST, name: str) -> bool:
    # Annotations, defaults and bases run at import, if at all, and not in a test.
    if isinstance(node, ast.arguments) or name in ("decorator_list", "annotation", "returns", "type_params"):
        return True
    if isinstance(parent, ast.ClassDef) and name in ("bases", "keywords"):
        return True
    if isinstance(node, ast.FunctionDef) and node.name in WORDS:
        return True
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return True
    # What is raised is words, and an assertion that holds says nothing.
    return isinstance(parent, ast.Raise) or isinstance(node, ast.JoinedStr | ast.Assert) or is_message(node)


def is_message(node: ast.AST) -> bool:
    """Whether the node is a docstring, or a call that only tells somebody something."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or is_message(node.value)
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in MESSAGES


def first_line(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The line of the first statement that runs in a function: a docstring does not."""
    return next((s.lineno for s in function.body if not _is_docstring(s)), function.body[-1].lineno)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _attributes(function: ast.AST) -> dict[str, tuple[str, ...]]:
    called = {id(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
    read: dict[str, set[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in called:
            read.setdefault(ast.unparse(node.value), set()).add(node.attr)
    return {owner: tuple(sorted(names)) for owner, names in read.items()}
