"""Reduce operations: their names and numbers, and which one the options of a call were given last.

Options give their reduce operation as a new object each time, in a microsecond. They are told it by an enum,
of which torch makes such an object as well. So the assignment is watched: it puts an object there that was
made before, and remembers the number.
"""

from __future__ import annotations

import sys
from typing import Any

# torch's numbers of reduce operations.
_NAMES = dict(enumerate(("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")))
# Operations of which torch cannot make an object without more than their number.
_WITH_FACTOR = frozenset({"PREMUL_SUM"})
# The classes of options that have one, of which older versions of torch lack some.
OPTIONS = ("AllreduceOptions", "AllreduceCoalescedOptions", "ReduceOptions", "ReduceScatterOptions")


class _Last:
    """The options that were last given a reduce operation, which are kept alive, and its number.

    Both are one value, since threads may come in between.
    """

    __slots__ = ("given",)

    def __init__(self) -> None:
        self.given: tuple[Any, int] = (None, -1)


last = _Last()


def number_in(options: Any) -> int:
    """The number of the reduce operation in a call's options, or of one that stands in their place."""
    of, number = last.given
    # The hash of a reduce operation is its number, in a third of the time that its name or number takes.
    return number if of is options else hash(getattr(options, "reduceOp", options))


def tap_options(distributed: Any) -> None:
    """Watches which reduce operations are given to options."""
    made = {
        id(kind): (distributed.ReduceOp(kind), hash(kind), kind)  # kept, so that no other object has its id
        for name, kind in distributed.ReduceOp.RedOpType.__members__.items()
        if name not in _WITH_FACTOR
    }
    for name in OPTIONS:
        options = getattr(sys.modules["torch._C._distributed_c10d"], name, None)
        if options is not None:
            options.reduceOp = _remembering(options.reduceOp, made)


def _remembering(original: property, made: dict[int, tuple[Any, int, Any]]) -> property:
    assign: Any = original.fset

    def remember(self: Any, operation: Any) -> None:
        known = made.get(id(operation))
        if known is None:
            last.given = (None, -1)
            assign(self, operation)
        else:
            assign(self, known[0])
            last.given = (self, known[1])

    return property(original.fget, remember, original.fdel, original.__doc__)


def number_of(reduce_op: Any) -> Any:
    """A hashable stand-in for a reduce operation: its name takes microseconds."""
    plain = getattr(reduce_op, "op", reduce_op)
    if plain is None or type(plain) is str:
        return plain
    return plain() if _is_operators(reduce_op) else int(plain)


def name_of(reduce_op: Any) -> str:
    """The name of a reduce operation: "SUM"; "" for None."""
    if reduce_op is None or isinstance(reduce_op, str):
        return (reduce_op or "").upper()
    if _is_operators(reduce_op):
        return _NAMES.get(reduce_op.op(), "")
    return str(getattr(reduce_op, "op", reduce_op).name).upper()


def _is_operators(reduce_op: Any) -> bool:
    """Whether this is a reduce operation as operators get it, which tells no more than its number."""
    return type(reduce_op).__name__ == "ScriptObject"
