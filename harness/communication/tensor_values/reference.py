"""The numpy reference of each collective: what every member of a group has to get for what all of them give.

The one place in the tree that says what a collective computes. Arrays may have any type: numbers, or for what
is only moved, rows of bytes. What splits or joins does so along the first dimension.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: The inputs of each member, in group order.
Given = Sequence[Sequence[Array]]
#: The outputs by member, of those whose output is defined: not of all but the root of ``reduce``.
Got = Mapping[int, Sequence[Array]]

_UFUNCS: Mapping[str, np.ufunc] = {
    "sum": np.add,
    "avg": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
# Collectives that combine numbers; the others move them.
REDUCING = frozenset(
    {"all_reduce", "all_reduce_coalesced", "reduce", "reduce_scatter"}
    | {"reduce_scatter_tensor", "reduce_scatter_tensor_coalesced"}
)


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective of one group: ``op`` is a reduce operation ("sum"), ``root`` a member by its place there.

    ``parts`` are the lengths that ``all_to_all_single`` sends: by sender, to each member; () for equal parts.
    """

    operation: str
    op: str = "sum"
    root: int = 0
    parts: Sequence[Sequence[int]] = ()


def combined(op: str, arrays: Sequence[Array]) -> Array:
    """The element-wise reduction of arrays of one shape, in their own type. Integers wrap around."""
    # The cast back to the arrays' type is for booleans, which numpy would add up as numbers.
    total = functools.reduce(_UFUNCS[op], arrays).astype(arrays[0].dtype)
    return total / arrays[0].dtype.type(len(arrays)) if op == "avg" else total


def results(collective: Collective, given: Given) -> Got:
    """What each member gets. KeyError for an unknown operation, ValueError for inputs that do not fit."""
    return _RESULTS[collective.operation](collective, given)


def _for_all(
    compute: Callable[[Collective, Given, int], Sequence[Array]],
) -> Callable[[Collective, Given], Got]:
    return lambda c, given: {member: compute(c, given, member) for member in range(len(given))}


def _at_root(compute: Callable[[Collective, Given], Sequence[Array]]) -> Callable[[Collective, Given], Got]:
    return lambda c, given: {c.root: compute(c, given)}


def _reduced(c: Collective, given: Given, part: int = 0) -> Array:
    return combined(c.op, [each[part] for each in given])


def _split_reduced(c: Collective, given: Given, member: int) -> Sequence[Array]:
    return [np.split(_reduced(c, given), len(given), axis=0)[member]]


def _joined_parts(c: Collective, given: Given, member: int) -> Sequence[Array]:
    blocks = []
    for sender, (whole,) in enumerate(given):
        cuts: Any = np.cumsum(c.parts[sender])[:-1] if c.parts else len(given)
        blocks.append(np.split(whole, cuts, axis=0)[member])
    return [np.concatenate(blocks, axis=0)]


def _on_each(compute: Callable[[Collective, Given], Got]) -> Callable[[Collective, Given], Got]:
    """The coalesced form of a collective: the same on each tensor of a list."""

    def on_each(c: Collective, given: Given) -> Got:
        each = [compute(c, [(mine[i],) for mine in given]) for i in range(len(given[0]))]
        return {member: [one[member][0] for one in each] for member in range(len(given))}

    return on_each


_ALL_REDUCE = _for_all(lambda c, given, _: [_reduced(c, given)])
_ALL_GATHER_INTO_TENSOR = _for_all(lambda c, given, _: [np.concatenate([g[0] for g in given])])
_REDUCE_SCATTER_TENSOR = _for_all(_split_reduced)
_RESULTS: Mapping[str, Callable[[Collective, Given], Got]] = {
    "all_reduce": _ALL_REDUCE,
    "all_reduce_coalesced": _on_each(_ALL_REDUCE),
    "broadcast": _for_all(lambda c, given, _: given[c.root]),
    "reduce": _at_root(lambda c, given: [_reduced(c, given)]),
    "all_gather": _for_all(lambda c, given, _: [each[0] for each in given]),
    # A list of lists of outputs: by sender, then by tensor.
    "all_gather_coalesced": _for_all(lambda c, given, _: [tensor for each in given for tensor in each]),
    "all_gather_into_tensor": _ALL_GATHER_INTO_TENSOR,
    "all_gather_into_tensor_coalesced": _on_each(_ALL_GATHER_INTO_TENSOR),
    "gather": _at_root(lambda c, given: [each[0] for each in given]),
    "scatter": _for_all(lambda c, given, member: [given[c.root][member]]),
    "reduce_scatter": _for_all(lambda c, given, member: [_reduced(c, given, member)]),
    "reduce_scatter_tensor": _REDUCE_SCATTER_TENSOR,
    "reduce_scatter_tensor_coalesced": _on_each(_REDUCE_SCATTER_TENSOR),
    "all_to_all": _for_all(lambda c, given, member: [each[member] for each in given]),
    "all_to_all_single": _for_all(_joined_parts),
    "barrier": lambda c, given: {},
}
OPERATIONS = frozenset(_RESULTS)
