"""Computes with numpy alone the tensors that every rank must hold after each step of a program.

What a collective computes is in ``harness.communication.tensor_values.reference``; here is what a program
gives to it. Arrays have the numpy type of the same name, or float32 for the two 16-bit floating-point dtypes.
Integers wrap around as they do on a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.communication.tensor_values.element_types import EPSILON
from harness.communication.tensor_values.reference import Collective, results
from harness.fuzzing.program import (
    COALESCED,
    COMPLEX,
    FLOATS,
    IN_PLACE,
    OBJECTS,
    REDUCING,
    Call,
    CollectiveStep,
    Meeting,
    Message,
    Program,
    Step,
)

Array = NDArray[Any]
Arrays = tuple[Array, ...]
#: The collectives of tensors that move what those of objects do.
_MOVED = {"all_gather_object": "all_gather", "broadcast_object_list": "broadcast"}
_MOVED |= {"gather_object": "gather", "scatter_object_list": "scatter"}
#: Arrays by (step, rank).
Held = dict[tuple[int, int], Arrays]

#: The number of different values in data that is moved, which tell where it came from. The smallest dtype has
#: as many positive values.
LABELS = 127
#: The number of different values in data that is reduced. It is small, so that a product over a few ranks
#: does not overflow, and divides neither the offsets of ranks and parts nor the usual shapes, so that the
#: data differs by rank, part and place.
TERMS = 5
#: How far apart the data of the objects of one message are, in parts.
LIST = 10
#: The elements before and behind tensors that are cut from one buffer, all of them 1.
MARGIN = 3


@dataclass(frozen=True, slots=True)
class Interpretation:
    """The inputs of each rank for each step of a program, and the expected results.

    A rank that takes no part in a step, or whose result is unspecified (all but the root of ``reduce``), has
    no entry in ``results``.
    """

    inputs: Held = field(default_factory=dict)
    results: Held = field(default_factory=dict)


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy type that represents a dtype."""
    return np.dtype("float32" if dtype in ("float16", "bfloat16") else dtype)


def fill(step: int, rank: int, part: int, shape: Sequence[int], dtype: str, values: int) -> Array:
    """The input data of a rank for a step: numbers from 1 to ``values`` that differ by step, rank and part.

    Complex numbers have them in both components; booleans are true where the number is odd.
    """
    count = int(np.prod(shape, dtype=np.int64))
    flat = (np.arange(count) + 31 * rank + 8 * part + 3 * step) % values + 1
    numbers: Array = flat.reshape(tuple(shape))
    if dtype == "bool":
        odd: Array = numbers % 2 == 1
        return odd
    return (numbers * (1 - 2j) if dtype in COMPLEX else numbers).astype(numpy_dtype(dtype))


def rows(step: CollectiveStep, sender: int, receiver: int) -> int:
    """The number of rows that ``all_to_all_single`` moves from one member of the group to another."""
    return (step.shape[0] + sender + 2 * receiver) % 3 if step.uneven else step.shape[0]


def splits(step: CollectiveStep, member: int) -> tuple[list[int] | None, list[int] | None]:
    """The row counts that a member of ``all_to_all_single`` receives from and sends to each member.

    Both are None for an even split.
    """
    if not step.uneven:
        return None, None
    members = range(len(step.group))
    return [rows(step, other, member) for other in members], [rows(step, member, other) for other in members]


def input_shapes(step: CollectiveStep, member: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of the input tensors of a member of the group."""
    size, shape = len(step.group), step.shape
    if step.managed:
        return tuple(shape for call in _managed(step) for shape in input_shapes(call, member))
    if step.kind in OBJECTS:
        return _objects(step, member)
    if step.kind in ("barrier", "scatter"):
        return (shape,) * size if step.kind == "scatter" and member == step.root else ()
    if step.kind in ("reduce_scatter", "all_to_all"):
        return (shape,) * size
    if step.kind in COALESCED:
        return _coalesced(step)
    if step.kind == "reduce_scatter_tensor":
        return ((size * shape[0], *shape[1:]),)
    if step.kind == "all_to_all_single":
        return ((sum(rows(step, member, other) for other in range(size)), *shape[1:]),)
    return (shape,)


def _objects(step: CollectiveStep, member: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of the objects that a member gives."""
    counts = {"broadcast_object_list": 2, "scatter_object_list": len(step.group)}
    gives = step.kind != "scatter_object_list" or member == step.root
    parts = range(counts.get(step.kind, 1) if gives else 0)
    return tuple((1 + member + 2 * part, *step.shape) for part in parts)


def output_shapes(step: CollectiveStep, member: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of the output tensors of a member that are not also its inputs; none of objects."""
    size, shape = len(step.group), step.shape
    if step.managed:
        return tuple(shape for call in _managed(step) for shape in output_shapes(call, member))
    if step.kind in (*IN_PLACE, *OBJECTS, "barrier"):
        return ()
    if step.kind == "gather":
        return (shape,) * size if member == step.root else ()
    if step.kind in ("all_gather", "all_to_all"):
        return (shape,) * size
    if step.kind == "all_gather_coalesced":
        return _coalesced(step) * size
    if step.kind == "all_gather_into_tensor":
        return ((size * shape[0], *shape[1:]),)
    if step.kind == "all_to_all_single":
        return ((sum(rows(step, other, member) for other in range(size)), *shape[1:]),)
    return (shape,)


def _coalesced(step: CollectiveStep) -> tuple[tuple[int, ...], ...]:
    return (step.shape, (*step.shape, 2))


def _managed(step: CollectiveStep) -> tuple[CollectiveStep, ...]:
    """The calls that are coalesced into one, as each would be by itself."""
    own = replace(step, managed=False, views=False, gaps=False)
    return tuple(replace(own, shape=shape) for shape in _coalesced(step))


def objects_received(step: CollectiveStep, member: int) -> int:
    """How many objects a member gets by an object collective."""
    if step.kind == "gather_object" and member != step.root:
        return 0
    return {"broadcast_object_list": 2, "scatter_object_list": 1}.get(step.kind, len(step.group))


def exact(step: Step) -> bool:
    """Whether a step's result is bitwise the same on every backend."""
    reduces = isinstance(step, CollectiveStep) and step.kind in REDUCING
    return not reduces or isinstance(step, Meeting) or _whole(step.dtype)


def rounding(step: Call) -> float:
    """The relative error that a step's result may have."""
    return 0.0 if exact(step) else len(step.group) * EPSILON[step.dtype]


def taken(program: Program, number: int, rank: int, results: Held) -> Array | None:
    """The earlier result that is a rank's input for step ``number``, or None if it uses data of its own.

    A rounded result is never used, nor is any result in a floating-point product, whose numbers have to stay
    small: so every correct result can be told from a wrong one.
    """
    step = program.steps[number]
    if not isinstance(step, CollectiveStep) or step.takes is None:
        return None
    source, found = program.steps[step.takes], results.get((step.takes, rank), ())
    if not isinstance(source, CollectiveStep) or not found or not exact(source) or source.dtype != step.dtype:
        return None
    shapes = input_shapes(step, step.group.index(rank))
    inexact_product = step.kind in REDUCING and step.op == "product" and not _whole(step.dtype)
    return None if inexact_product or len(shapes) != 1 or found[0].shape != shapes[0] else found[0]


def message_shapes(step: Message) -> tuple[tuple[int, ...], ...]:
    """The shape of the tensor that is sent, or those of two objects, the second of which is longer."""
    return ((1, *step.shape), (3, *step.shape)) if step.objects else (step.shape,)


def interpret(program: Program) -> Interpretation:
    """Computes the inputs and results of each rank, step by step."""
    known = Interpretation()
    for number, step in enumerate(program.steps):
        if isinstance(step, Message):
            message = tuple(
                fill(number, step.source, step.target + LIST * part, shape, step.dtype, LABELS)
                for part, shape in enumerate(message_shapes(step))
            )
            known.inputs[number, step.source] = known.results[number, step.target] = message
        elif isinstance(step, CollectiveStep):
            given = [_given(program, number, rank, known.results) for rank in step.group]
            known.inputs.update({(number, r): g for r, g in zip(step.group, given, strict=True)})
            got = results(_collective(step), given)
            known.results.update({(number, step.group[m]): tuple(g) for m, g in got.items()})
    return known


def _collective(step: CollectiveStep) -> Collective:
    members = range(len(step.group)) if step.kind == "all_to_all_single" else ()
    parts = [[rows(step, sender, receiver) for receiver in members] for sender in members]
    return Collective(_MOVED.get(step.kind, step.operation), step.op, step.root, parts)


def _given(program: Program, number: int, rank: int, results: Held) -> Arrays:
    step = program.steps[number]
    assert isinstance(step, CollectiveStep)
    found = taken(program, number, rank, results)
    if found is not None:
        return (found,)
    values = TERMS if step.kind in REDUCING else LABELS
    shapes = input_shapes(step, step.group.index(rank))
    return tuple(fill(number, rank, part, shape, step.dtype, values) for part, shape in enumerate(shapes))


def _whole(dtype: str) -> bool:
    return dtype not in (*FLOATS, *COMPLEX)
