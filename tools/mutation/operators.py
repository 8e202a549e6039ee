"""The rules by which a mutant is made of a place: each operator yields what may stand there in its stead.

The operators are those of mutation testing at large (of mutmut, cosmic-ray, PIT), and a few for what this
code is about: contexts that are dropped, loops that end early or run backwards. A rule yields its variants
always in the same order, since a mutant is named by its place, its rule and the variant's number.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from tools.mutation.places import Place, first_line

Replacement = ast.AST | list[ast.stmt]
Operator = Callable[[Place], Iterator[Replacement]]

COMPARED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}

# Functions that refuse their arguments in the other order.
TYPED = frozenset({"isinstance", "issubclass", "hasattr", "getattr", "setattr", "cast"})


def _is_condition(place: Place) -> bool:
    return (place.field == "test" and isinstance(place.parent, ast.If | ast.While | ast.IfExp)) or (
        place.field == "ifs"
    )


def negated_condition(place: Place) -> Iterator[Replacement]:
    """``if a`` becomes ``if not a``; comparisons have a rule of their own."""
    if _is_condition(place) and not isinstance(place.node, ast.Compare):
        yield ast.UnaryOp(ast.Not(), place.node)  # type: ignore[arg-type]  # a condition is an expression


def dropped_condition(place: Place) -> Iterator[Replacement]:
    """A condition is always true, or always false."""
    if _is_condition(place):
        if not isinstance(place.parent, ast.While):  # which would never end
            yield ast.Constant(True)
        yield ast.Constant(False)


def comparison(place: Place) -> Iterator[Replacement]:
    """``<`` becomes ``<=``, ``==`` becomes ``!=``, ``in`` becomes ``not in``."""
    node = place.node
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            ops = [*node.ops[:i], COMPARED[type(operator)](), *node.ops[i + 1 :]]
            yield ast.Compare(node.left, ops, node.comparators)


def arithmetic(place: Place) -> Iterator[Replacement]:
    """``+`` becomes ``-``; strings are left alone."""
    node = place.node
    if isinstance(node, ast.BinOp) and type(node.op) in COMPUTED and not _is_text(node):
        yield ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right)


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in ast.walk(node)
    )


def connective(place: Place) -> Iterator[Replacement]:
    """``and`` becomes ``or``; and a part of the condition is dropped."""
    node = place.node
    if isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        for i in range(len(node.values)):
            rest = [*node.values[:i], *node.values[i + 1 :]]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def sign(place: Place) -> Iterator[Replacement]:
    """``not a`` and ``-a`` become ``a``."""
    if isinstance(place.node, ast.UnaryOp) and isinstance(place.node.op, ast.Not | ast.USub):
        yield place.node.operand


def constant(place: Place) -> Iterator[Replacement]:
    """A number is off by one or doubled, a truth value the other; a name that is looked up is another."""
    node = place.node
    if not isinstance(node, ast.Constant):
        return
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield ast.Constant(node.value + 1)
        if node.value > 0:
            yield ast.Constant(node.value - 1)
    elif isinstance(node.value, float):
        yield ast.Constant(node.value * 2 if node.value else 1.0)
    elif isinstance(node.value, str) and isinstance(place.parent, ast.Compare | ast.Subscript):
        yield ast.Constant(f"{node.value}_")


def swapped_arguments(place: Place) -> Iterator[Replacement]:
    """``f(a, b)`` becomes ``f(b, a)``, except where that can only be a TypeError."""
    node = place.node
    if isinstance(node, ast.Call) and len(node.args) > 1 and getattr(node.func, "id", "") not in TYPED:
        first, second, *rest = node.args
        starred = isinstance(first, ast.Starred) or isinstance(second, ast.Starred)
        if not starred and ast.dump(first) != ast.dump(second):
            yield ast.Call(node.func, [second, first, *rest], node.keywords)


def dropped_argument(place: Place) -> Iterator[Replacement]:
    """A call lacks its last argument, or a keyword."""
    node = place.node
    if isinstance(node, ast.Call):
        if node.args:
            yield ast.Call(node.func, node.args[:-1], node.keywords)
        for i in range(len(node.keywords)):
            yield ast.Call(node.func, node.args, [*node.keywords[:i], *node.keywords[i + 1 :]])


def dropped_statement(place: Place) -> Iterator[Replacement]:
    """A call for its effect, an assignment to a field or an element, a refusal or a deletion is not there."""
    node = place.node
    effect = isinstance(node, ast.Raise | ast.Delete | ast.AugAssign | ast.Continue | ast.Break)
    call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)
    stored = isinstance(node, ast.Assign) and all(
        isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets
    )
    if effect or call or stored:
        yield ast.Pass()


def dropped_addition(place: Place) -> Iterator[Replacement]:
    """``a += b`` becomes ``a = b``."""
    node = place.node
    if isinstance(node, ast.AugAssign):
        yield ast.Assign([node.target], node.value)


def early_return(place: Place) -> Iterator[Replacement]:
    """A function returns None at once, or in place of a value."""
    node = place.node
    if isinstance(node, ast.Return) and not (
        node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)
    ):
        yield ast.Return(ast.Constant(None))
    if isinstance(node, ast.FunctionDef) and _does_something(node):
        at = next(i for i, statement in enumerate(node.body) if statement.lineno == first_line(node))
        body = [*node.body[:at], ast.Return(None), *node.body[at:]]
        yield ast.FunctionDef(**{**dict(ast.iter_fields(node)), "body": body})


def _does_something(function: ast.FunctionDef) -> bool:
    """Whether a function has a statement that is no docstring, refusal or return."""
    idle = (ast.Pass, ast.Raise, ast.Return)
    return any(
        not isinstance(s, idle) and not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in function.body
    )


def dropped_context(place: Place) -> Iterator[Replacement]:
    """``with a:`` is not there, its body is."""
    node = place.node
    if isinstance(node, ast.With) and all(item.optional_vars is None for item in node.items):
        yield list(node.body)


def first_turn_only(place: Place) -> Iterator[Replacement]:
    """A loop ends after its first turn."""
    node = place.node
    if isinstance(node, ast.For) and not isinstance(node.body[-1], ast.Break | ast.Return | ast.Raise):
        yield ast.For(node.target, node.iter, [*node.body, ast.Break()], node.orelse)


def backwards(place: Place) -> Iterator[Replacement]:
    """A loop runs from its last turn to its first."""
    if place.field == "iter" and isinstance(place.parent, ast.For | ast.comprehension):
        listed = ast.Call(ast.Name("list", ast.Load()), [place.node], [])  # type: ignore[list-item]  # an expression
        yield ast.Call(ast.Name("reversed", ast.Load()), [listed], [])


def other_attribute(place: Place) -> Iterator[Replacement]:
    """``self.a`` becomes ``self.b``, of which the function reads both."""
    node = place.node
    called = isinstance(place.parent, ast.Call) and place.field == "func"
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and not called:
        names = place.attributes.get(ast.unparse(node.value), ())
        if len(names) > 1 and node.attr in names:
            following = names[(names.index(node.attr) + 1) % len(names)]
            yield ast.Attribute(node.value, following, node.ctx)


OPERATORS: Mapping[str, Operator] = {
    operator.__name__: operator
    for operator in (
        negated_condition,
        dropped_condition,
        comparison,
        arithmetic,
        connective,
        sign,
        constant,
        swapped_arguments,
        dropped_argument,
        dropped_statement,
        dropped_addition,
        early_return,
        dropped_context,
        first_turn_only,
        backwards,
        other_attribute,
    )
}
