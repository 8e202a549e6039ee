"""The rule by which DDPOptimizer makes buckets, as a model to compare it with.

Written from torch's documentation (the note in ``torch/_dynamo/backends/distributed.py``, DDP's
``bucket_cap_mb``, the warning about extended buckets), not from the code:

* Gradients become ready in the reverse order of the forward. So operators are taken from the last to the
  first, and the bytes of their parameters are added up, to the limit of a bucket; then the next is begun.
* The first bucket has a limit of its own, DDP's first bucket: a small all-reduce can start early.
* A parameter that several operators use counts once, with the last of them. (Of this only the code tells.)
* Buffers, parameters without gradients and those that DDP was told to ignore do not count, but what uses them
  is in some bucket.
* Each piece has to give something to another piece or to the caller: a full bucket that does not takes
  further operators until it does.
* A piece before the first parameter is no bucket: it belongs to the one after it.

No torch is imported here: a model is a sequence of ``Step`` values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.errors import UsageError

#: The reader of a step's result that is no step: whoever called the model.
CALLER = -1


@dataclass(frozen=True, slots=True)
class Weight:
    """A parameter: its name, its bytes, whether it takes gradients, and whether DDP was told to ignore it."""

    name: str
    size: int
    trainable: bool = True
    ignored: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """An operator of the forward.

    ``weights`` are the parameters among its positional arguments, in that order. ``aside`` are those that it
    gets by keyword or within a list. ``readers`` are the later steps that use its result, by their index, and
    ``CALLER``.
    """

    weights: tuple[Weight, ...] = ()
    aside: tuple[Weight, ...] = ()
    readers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Deviations:
    """Where DDPOptimizer is known to leave its documentation.

    ``counts_ignored``: the mark is lost on the way from the module to the graph. ``counts_each_use``: a
    parameter that several operators use, or one twice, counts as often. ``misses_aside``: a parameter that is
    no positional argument is never seen.
    """

    counts_ignored: bool = False
    counts_each_use: bool = False
    misses_aside: bool = False


#: As documented.
DOCUMENTED = Deviations()
#: On graphs that dynamo traced, as of torch 2.13.
TRACED = Deviations(counts_ignored=True, counts_each_use=True, misses_aside=True)


@dataclass(frozen=True, slots=True)
class ExpectedBucket:
    """The names of the parameters that a bucket counts, in the order of counting; their bytes; its steps."""

    names: tuple[str, ...]
    size: int
    steps: tuple[int, ...]


def expected_buckets(
    steps: Sequence[Step], cap: int, first_cap: int, deviations: Deviations = DOCUMENTED
) -> tuple[ExpectedBucket, ...]:
    """The buckets of a model whose forward is ``steps``, nearest the output first; at least one.

    ``cap`` and ``first_cap`` are bytes. UsageError where the first bucket's limit is above the others', or
    where a step's result is read by a step that is not after it.
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


def _length(rest: Sequence[int], limit: int, steps: Sequence[Step], counted: Sequence[list[Weight]]) -> int:
    """How many of the steps that are left the next bucket takes."""
    total = 0
    for length, index in enumerate(rest, 1):
        total += sum(weight.size for weight in counted[index])
        if total >= limit and _gives(rest[:length], steps):
            return length
    return len(rest)


def _gives(piece: Sequence[int], steps: Sequence[Step]) -> bool:
    """Whether anything outside reads what some step of a piece makes."""
    inside = set(piece)
    return any(reader not in inside for index in piece for reader in steps[index].readers)


def _counted(steps: Sequence[Step], deviations: Deviations) -> list[list[Weight]]:
    """What each step counts for; a parameter counts with the last step that uses it, whose turn is first."""
    found: list[list[Weight]] = [[] for _ in steps]
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


def _bucket(piece: Iterable[int], counted: Sequence[list[Weight]]) -> ExpectedBucket:
    steps = tuple(piece)
    weights = [weight for index in steps for weight in counted[index]]
    return ExpectedBucket(tuple(w.name for w in weights), sum(w.size for w in weights), steps)


def _check(steps: Sequence[Step], cap: int, first_cap: int) -> None:
    if first_cap > cap:
        raise UsageError(
            f"the first bucket's limit, {first_cap} bytes, is above that of the others, {cap} bytes: "
            "give a bucket_cap_mb of at least 1, or a smaller first limit"
        )
    for index, step in enumerate(steps):
        for reader in step.readers:
            if reader != CALLER and not index < reader < len(steps):
                raise UsageError(
                    f"step {index} is read by step {reader}: readers are later steps' indices, or CALLER"
                )
