"""A model of the rule by which DDPOptimizer forms buckets, to compare its buckets with.

Written from torch's documentation (the note in ``torch/_dynamo/backends/distributed.py``, DDP's
``bucket_cap_mb``, the warning about extended buckets), not from the code:

* Gradients become ready in the reverse order of the forward. So operators are taken from the last to the
  first, and the bytes of their parameters are added up until the bucket's limit; then the next bucket starts.
* The first bucket has the limit of DDP's first bucket, so that a small all-reduce starts early.
* A parameter that several operators use counts once, with the last of them. (Only the code documents this.)
* Buffers, parameters without gradients and those that DDP was told to ignore do not count, but the operators
  that use them are in some bucket.
* Each bucket has to compute something that another bucket or the caller reads. A full bucket that does not
  takes further operators until it does.
* The operators before the first parameter are no bucket of their own: they belong to the following one.

This module does not import torch: a model is a sequence of ``ForwardOperator`` values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.errors import UsageError

#: Stands in ``readers`` for the caller of the model, which is not a step.
MODEL_OUTPUT = -1


@dataclass(frozen=True, slots=True)
class DdpParameter:
    """A parameter: its name, its bytes, whether it requires grad, and whether DDP was told to ignore it."""

    name: str
    size: int
    trainable: bool = True
    ignored: bool = False


@dataclass(frozen=True, slots=True)
class ForwardOperator:
    """One operator of the forward.

    ``weights`` are the parameters among its positional arguments, in that order. ``aside`` are those that it
    gets by keyword or within a list. ``readers`` are the indices of the later steps that use its result;
    ``MODEL_OUTPUT`` among them means that the model returns it.
    """

    weights: tuple[DdpParameter, ...] = ()
    aside: tuple[DdpParameter, ...] = ()
    readers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Deviations:
    """The known deviations of DDPOptimizer from its documentation.

    ``counts_ignored``: it counts ignored parameters, because the mark is lost between module and graph.
    ``counts_each_use``: it counts a parameter once per use. ``misses_aside``: it does not see a parameter
    that is not a positional argument.
    """

    counts_ignored: bool = False
    counts_each_use: bool = False
    misses_aside: bool = False


#: No deviation from the documentation.
DOCUMENTED = Deviations()
#: The deviations on graphs that dynamo traced, as of torch 2.13.
DDP_OPTIMIZER_DEVIATIONS = Deviations(counts_ignored=True, counts_each_use=True, misses_aside=True)


@dataclass(frozen=True, slots=True)
class ExpectedBucket:
    """A bucket: its parameters' names in the order of counting, their bytes, and its steps' indices."""

    names: tuple[str, ...]
    size: int
    steps: tuple[int, ...]


def expected_buckets(
    steps: Sequence[ForwardOperator], cap: int, first_cap: int, deviations: Deviations = DOCUMENTED
) -> tuple[ExpectedBucket, ...]:
    """The buckets of a model whose forward is ``steps``, nearest the output first; at least one.

    ``cap`` and ``first_cap`` are bytes. UsageError where the first bucket's limit is above the others', or
    where a step's result is read by a step that does not come after it.
    """
    _check(steps, cap, first_cap)
    counted = _counted(steps, deviations)
    pieces: list[list[int]] = []
    rest = list(reversed(range(len(steps))))
    while rest:
        limit = cap if pieces else first_cap
        length = _length(rest, limit, steps, counted)
        pieces.append(rest[:length])
        rest = rest[length:]
    if len(pieces) > 1 and not any(counted[index] for index in pieces[-1]):
        before_all = pieces.pop()
        pieces[-1] += before_all
    return tuple(_bucket(piece, counted) for piece in pieces or [[]])


def _length(
    rest: Sequence[int], limit: int, steps: Sequence[ForwardOperator], counted: Sequence[list[DdpParameter]]
) -> int:
    """How many of the remaining steps the next bucket takes."""
    total = 0
    for length, index in enumerate(rest, 1):
        total += sum(weight.size for weight in counted[index])
        if total >= limit and _gives(rest[:length], steps):
            return length
    return len(rest)


def _gives(piece: Sequence[int], steps: Sequence[ForwardOperator]) -> bool:
    """Whether any step outside the piece, or the caller, reads the result of a step in it."""
    inside = set(piece)
    return any(reader not in inside for index in piece for reader in steps[index].readers)


def _counted(steps: Sequence[ForwardOperator], deviations: Deviations) -> list[list[DdpParameter]]:
    """The parameters that each step counts; one that several steps use counts with the last of them."""
    found: list[list[DdpParameter]] = [[] for _ in steps]
    seen: set[str] = set()
    for index in reversed(range(len(steps))):
        step = steps[index]
        for weight in (*step.weights, *(() if deviations.misses_aside else step.aside)):
            again = weight.name in seen and not deviations.counts_each_use
            passed_over = weight.ignored and not deviations.counts_ignored
            if weight.trainable and not passed_over and not again:
                found[index].append(weight)
                seen.add(weight.name)
    return found


def _bucket(piece: Iterable[int], counted: Sequence[list[DdpParameter]]) -> ExpectedBucket:
    steps = tuple(piece)
    weights = [weight for index in steps for weight in counted[index]]
    return ExpectedBucket(tuple(w.name for w in weights), sum(w.size for w in weights), steps)


def _check(steps: Sequence[ForwardOperator], cap: int, first_cap: int) -> None:
    if first_cap > cap:
        raise UsageError(
            f"the first bucket's limit, {first_cap} bytes, is above that of the others, {cap} bytes: "
            "give a bucket_cap_mb of at least 1, or a smaller first limit"
        )
    for index, step in enumerate(steps):
        for reader in step.readers:
            if reader != MODEL_OUTPUT and not index < reader < len(steps):
                raise UsageError(
                    f"step {index} is read by {reader}: readers are later steps' indices, or MODEL_OUTPUT"
                )
