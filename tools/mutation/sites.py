"""``Site``: one mutant, named so that every process finds it again; and the syntax tree that has it."""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Iterator
from dataclasses import dataclass

from harness.errors import UsageError
from tools.mutation.operators import OPERATORS, Replacement
from tools.mutation.places import Place, places

# Characters of source that a mutant's description shows of what was and what is.
SHOWN = 110


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """One mutant of a file: a rule, and a variant of it, applied to one node.

    ``file`` is relative to the directory that has torch. ``span`` are the node's first line and column and
    its last, as in ``ast``. ``line`` is the line of the statement that runs if the node does.
    """

    file: str
    span: tuple[int, int, int, int]
    operator: str
    variant: int
    function: str
    line: int

    @property
    def name(self) -> str:
        """The mutant's name, from which ``Site`` finds it in the same source: ``file:1.4-1.9:constant:0``."""
        first, column, last, end = self.span
        return f"{self.file}:{first}.{column}-{last}.{end}:{self.operator}:{self.variant}"


@dataclass(frozen=True, slots=True)
class Description:
    """What a mutant does, in source: what stood there, and what stands there."""

    before: str
    after: str


def sites(file: str, source: str) -> Iterator[Site]:
    """All mutants of a file, in the order of its source."""
    for place, operator, variant, _ in _mutants(ast.parse(source)):
        yield _site(file, place, operator, variant)


def find(name: str, source: str) -> Site:
    """The mutant of this name. UsageError where the source has none."""
    file, _, _ = name.partition(":")
    for site in sites(file, source):
        if site.name == name:
            return site
    raise UsageError(f"there is no mutant {name}: the source is another, or so are the rules")


def mutated(source: str, name: str) -> ast.Module:
    """The syntax tree of a source with one mutant planted. UsageError where it has none of this name."""
    tree = ast.parse(source)
    file, _, _ = name.partition(":")
    for place, operator, variant, replacement in _mutants(tree):
        if _site(file, place, operator, variant).name == name:
            for node in replacement if isinstance(replacement, list) else [replacement]:
                ast.copy_location(node, place.node)
            place.put(replacement)
            return ast.fix_missing_locations(tree)
    raise UsageError(f"there is no mutant {name}: the source is another, or so are the rules")


def describe(source: str, name: str) -> Description:
    """What the mutant of this name changes."""
    file, _, _ = name.partition(":")
    for place, operator, variant, replacement in _mutants(ast.parse(source)):
        if _site(file, place, operator, variant).name == name:
            return Description(_text(place.node), _words(operator, replacement))
    raise UsageError(f"there is no mutant {name}: the source is another, or so are the rules")


def same_code(source: str, name: str) -> bool:
    """Whether the compiled mutant is the compiled source, so that nothing could notice it."""
    original = compile(source, "torch", "exec", dont_inherit=True)
    mutant = compile(mutated(source, name), "torch", "exec", dont_inherit=True)
    return instructions(original) == instructions(mutant)


def instructions(code: types.CodeType) -> tuple[object, ...]:
    """What of a code object decides what it does: all but lines and positions."""
    constants = [
        instructions(c) if isinstance(c, types.CodeType) else (type(c), repr(c)) for c in code.co_consts
    ]
    handlers = getattr(code, "co_exceptiontable", b"")  # from Python 3.11 on
    return code.co_code, tuple(constants), code.co_names, code.co_varnames, handlers


def _mutants(tree: ast.Module) -> Iterator[tuple[Place, str, int, Replacement]]:
    for place in places(tree):
        for operator, rule in OPERATORS.items():
            for variant, replacement in enumerate(rule(place)):
                yield place, operator, variant, replacement


def _site(file: str, place: Place, operator: str, variant: int) -> Site:
    node = place.node
    last, end = getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)
    span = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0), last, end)
    return Site(file, span, operator, variant, place.function, place.line)


def _text(node: ast.AST | list[ast.stmt]) -> str:
    nodes = node if isinstance(node, list) else [node]
    lines = "; ".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(n))) for n in nodes).splitlines()
    first = lines[0] + (" ..." if len(lines) > 1 else "")
    return first if len(first) <= SHOWN else f"{first[: SHOWN - 4]} ..."


def _words(operator: str, replacement: Replacement) -> str:
    """The replacement; for one that changes the end of a long statement, the rule's words."""
    if operator == "early_return" and isinstance(replacement, ast.FunctionDef):
        return "returns None at once"
    if operator == "first_turn_only":
        return "ends after its first turn"
    if operator == "dropped_context":
        return f"no context: {_text(replacement)}"
    return _text(replacement)
