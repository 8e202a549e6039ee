"""``expected_of``: what every member of a group must get of a collective, and how far it may be off. Pure.

What is moved has to arrive bit by bit. What is summed or multiplied may be off by the rounding of its dtype,
once for each term and in proportion to the terms' sizes, whatever the order in which the backend takes them;
least and greatest numbers, and all integers, are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.communication.tensor_values import element_types, reference
from harness.communication.tensor_values.element_types import Array
from harness.communication.tensor_values.reference import Collective, Given, Got
from harness.communication.tensor_values.values import CallValues, Tensor

# Reductions whose result is the same whatever the order of the terms.
_ORDERLESS = frozenset({"min", "max", "band", "bor", "bxor"})


@dataclass(frozen=True, slots=True)
class ExpectedValues:
    """What members must get, flat: rows of bytes where ``moved``, else numbers.

    ``bound`` is the error allowed for each number, None where they have to be equal. It is infinite where
    any number may come out, because some order of the terms is out of the dtype's range on the way, and NaN
    where nothing but NaN may.
    """

    got: Got
    bound: Got | None = None
    moved: bool = False


def expected_of(together: Sequence[CallValues]) -> ExpectedValues | None:
    """What the members of a group must get for what they give to one call, in group order.

    None where no reference is known for the operation, the dtype, or these arguments.
    """
    signature = together[0].call.signature
    operation = together[0].operation
    collective = Collective(
        operation,
        signature.reduce_op.lower() or "sum",  # torch's default
        signature.members.index(signature.root) if signature.root in signature.members else 0,
        [v.call.signature.sent for v in together] if operation == "all_to_all_single" else (),
    )
    if operation not in reference.REDUCING:
        got = _results(collective, _rows_of(together))
        return ExpectedValues(got, moved=True) if got is not None else None
    if collective.op == "premul_sum":
        return _premultiplied(collective, together)
    return _reduction(collective, _numbers_of(together), _dtype_of(together))


def numbers_of(tensor: Tensor) -> Array | None:
    """The numbers of a tensor, flat; None for a dtype that is known by its bytes alone."""
    rows = element_types.rows_of_bytes(tensor.data, tensor.elements)
    return element_types.numbers(rows, tensor.dtype)


def _rows_of(together: Sequence[CallValues]) -> Given:
    tensors = [t for v in together for t in v.inputs]
    rows = iter(element_types.same_width(element_types.rows_of_bytes(t.data, t.elements) for t in tensors))
    return [[next(rows) for _ in v.inputs] for v in together]


def _numbers_of(together: Sequence[CallValues]) -> Given | None:
    given = [[n for t in v.inputs if (n := numbers_of(t)) is not None] for v in together]
    known = all(len(mine) == len(v.inputs) for mine, v in zip(given, together, strict=True))
    return given if known else None


def _dtype_of(together: Sequence[CallValues]) -> str | None:
    """The dtype of all inputs and outputs; None where there are several."""
    found = {t.dtype for v in together for t in (*v.inputs, *(v.outputs or ()))}
    return found.pop() if len(found) == 1 else None


def _premultiplied(collective: Collective, together: Sequence[CallValues]) -> ExpectedValues | None:
    given = _numbers_of(together)
    factors = [v.factor for v in together if v.factor is not None]
    if given is None or len(factors) < len(together):
        return None
    scaled = [[each * by for each in mine] for mine, by in zip(given, factors, strict=True)]
    return _reduction(replace(collective, op="sum"), scaled, _dtype_of(together))


def _reduction(collective: Collective, given: Given | None, dtype: str | None) -> ExpectedValues | None:
    if given is None or dtype is None:
        return None
    exact = element_types.is_exact(dtype)
    if collective.op == "avg" and exact:
        return None
    with np.errstate(all="ignore"):
        got = _results(collective, given)
        if got is None:
            return None
        if exact or collective.op in _ORDERLESS:
            return ExpectedValues(got)
        return ExpectedValues(got, _bounds(collective, given, dtype))


def _bounds(collective: Collective, given: Given, dtype: str) -> Got:
    terms = len(given)
    epsilon, least = element_types.EPSILON[dtype], element_types.least(dtype)
    sizes = [[np.abs(each) for each in mine] for mine in given]
    off = reference.results(collective, sizes)
    if collective.op == "product":
        top = reference.results(collective, [[np.maximum(each, 1) for each in mine] for mine in sizes])
        bottom = reference.results(
            collective, [[np.minimum(np.where(each == 0, 1, each), 1) for each in mine] for mine in sizes]
        )
    else:  # a backend may add before it divides
        top = reference.results(replace(collective, op="sum"), sizes)
        bottom = {member: [np.ones_like(each) for each in arrays] for member, arrays in top.items()}

    def bound(size: Array, most: Array, fewest: Array) -> Array:
        inside = (most < element_types.largest(dtype)) & (fewest > least / epsilon)
        beyond = np.where(np.isnan(size), np.nan, np.inf)
        found: Array = np.where(inside, terms * (epsilon * size + least), beyond)
        return found

    return {
        member: [bound(*each) for each in zip(off[member], top[member], bottom[member], strict=True)]
        for member in off
    }


def _results(collective: Collective, given: Given) -> Got | None:
    """The reference's results; None where it knows none for these inputs."""
    try:
        return reference.results(collective, given)
    except (KeyError, IndexError, TypeError, ValueError):
        return None
