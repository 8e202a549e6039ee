"""``Mutation``: one rank of a program drops a call, doubles it, swaps two, or gives one other arguments.

Pure. What must come of it is in ``prediction``. A mutated rank uses its own data where a step takes an
earlier output, because it may not have that one.
"""

from __future__ import annotations

import enum
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from harness.errors import UsageError
from harness.fuzzing.backend import GLOO, Backend
from harness.fuzzing.program import (
    OBJECTS,
    OPERATIONS,
    REDUCING,
    ROOTED,
    Call,
    CollectiveStep,
    Meeting,
    Message,
    Program,
    Step,
    step_from_json,
    step_to_json,
)
from harness.fuzzing.reference import Interpretation, interpret
from harness.fuzzing.schedule import EXPIRES, SEND, RankAction, schedule

# What c10d makes of complex numbers, before a backend gets them: two real ones of each.
_REAL = {"complex64": "float32", "complex128": "float64"}


class MutationKind(str, enum.Enum):
    """What a mutated rank does otherwise."""

    DROP = "drop"
    DOUBLE = "double"
    SWAP = "swap"
    ARGUMENTS = "arguments"


@dataclass(frozen=True, slots=True)
class Mutation:
    """What ``rank`` does otherwise with its call for step ``number``, of which it has ``part``.

    ``step`` is the doubled step, or the one in place of the old one: its number is that after the program's
    last. ``other`` is the number and the part of the call that a swapped call comes after.
    """

    change: MutationKind
    rank: int
    number: int
    part: str
    step: Call | None = None
    other: tuple[int, str] | None = None

    def steps(self, program: Program) -> tuple[Step, ...]:
        """The steps by number: the program's, and the mutated rank's own."""
        return program.steps if self.step is None else (*program.steps, self.step)

    def actions(self, program: Program, rank: int) -> tuple[RankAction, ...]:
        """The actions of a rank, in order."""
        right = schedule(program, rank)
        return tuple(self._mutated(right, len(program.steps))) if rank == self.rank else right

    def _mutated(self, right: Sequence[RankAction], new: int) -> Iterator[RankAction]:
        second = None
        for action in right:
            here = (action.number, action.part)
            if here == self.other and not action.waits:
                (second,) = (
                    a for a in right if (a.number, a.part) == (self.number, self.part) and not a.waits
                )
                yield second
                yield action
            elif here != (self.number, self.part):
                yield action
            elif self.change is MutationKind.DOUBLE:
                yield action
                yield replace(action, number=new)
            elif self.change is MutationKind.ARGUMENTS:
                yield replace(action, number=new)
            elif self.change is MutationKind.SWAP and action != second:
                yield action

    def text(self, program: Program) -> str:
        """What the rank does otherwise, in a sentence."""
        step = program.steps[self.number]
        what = f"step {self.number}, {step}"
        if isinstance(step, Message):
            what = f"the {self.part} of {what}"
        if self.change is MutationKind.DROP:
            return f"rank {self.rank} drops {what}"
        if self.change is MutationKind.DOUBLE:
            return f"rank {self.rank} doubles {what}"
        if self.change is MutationKind.ARGUMENTS:
            return f"rank {self.rank} does {self.step} in place of {what}"
        assert self.other is not None
        return f"rank {self.rank} does {what} before step {self.other[0]}, {program.steps[self.other[0]]}"


def interpreted(program: Program, mutation: Mutation) -> Interpretation:
    """The inputs of each rank, with those of the mutated rank's own step."""
    known = interpret(program)
    if mutation.step is not None:
        own = interpret(Program(program.world_size, (with_own_data(mutation.step),)))
        known.inputs.update({(len(program.steps), rank): given for (_, rank), given in own.inputs.items()})
    return known


def with_own_data(step: Call) -> Call:
    """The step with data of its own."""
    return replace(step, takes=None) if isinstance(step, CollectiveStep) else step


def mutated(program: Program, draws: random.Random, backend: Backend = GLOO) -> Mutation | None:
    """Draws a mutation of a program; None where no rank makes a call, or none can be made otherwise."""
    ranks = draws.sample(range(program.world_size), program.world_size)
    changes = draws.sample([*MutationKind], len(MutationKind))
    for rank in ranks:
        for change in changes:
            possible: dict[object, list[Mutation]] = defaultdict(list)
            for each in mutations(program, rank, change, backend):
                possible[each.number, each.part, _changed(program, each)].append(each)
            if possible:
                return draws.choice(possible[draws.choice([*possible])])
    return None


def _changed(program: Program, mutation: Mutation) -> tuple[str, ...]:
    """The names of the arguments that are otherwise."""
    if mutation.step is None:
        return ()
    before, after = asdict(program.steps[mutation.number]), asdict(mutation.step)
    return tuple(name for name in after if after[name] != before[name] and name != "takes")


def mutations(
    program: Program, rank: int, change: MutationKind, backend: Backend = GLOO
) -> Iterator[Mutation]:
    """Yields all mutations of one kind of one rank."""
    calls = [action for action in schedule(program, rank) if not action.waits and action.part != EXPIRES]
    for place, action in enumerate(calls):
        step = program.steps[action.number]
        if isinstance(step, Meeting):
            continue
        plain = Mutation(change, rank, action.number, action.part)
        if change is MutationKind.DROP:
            yield plain
        elif change is MutationKind.DOUBLE:
            yield replace(plain, step=with_own_data(step))
        elif change is MutationKind.SWAP:
            before = calls[place - 1] if place else None
            if before is not None and _differ(program, before, action):
                yield replace(plain, other=(before.number, before.part))
        else:
            for other in _others(program, step, action.part, backend):
                yield replace(plain, step=other)


def _differ(program: Program, one: RankAction, other: RankAction) -> bool:
    """Whether two calls of a rank are other calls, and none at which ranks meet."""
    first, second = program.steps[one.number], program.steps[other.number]
    if isinstance(first, Meeting) or isinstance(second, Meeting):
        return False
    return facts(first, one.part) != facts(second, other.part)


def facts(step: Call, part: str) -> tuple[object, ...]:
    """What tells one call from another, and what the ranks that make it must have alike."""
    if isinstance(step, Message):
        tensor = ("objects",) if step.objects else _elements(step.dtype, math.prod(step.shape))
        return (part, step.group, step.source, step.target, step.tag, *tensor)
    return (
        step.operation,
        step.group,
        step.op if step.kind in REDUCING else "",
        step.root if step.kind in ROOTED else None,
        *(_elements(step.dtype, math.prod(step.shape)) if step.kind not in (*OBJECTS, "barrier") else ()),
        (step.shape[0] % 3, step.shape[1:]) if step.uneven and 0 not in step.shape[1:] else (),
    )


def _elements(dtype: str, count: int) -> tuple[str, int]:
    """The elements that a backend gets: c10d makes two of each complex number."""
    real = _REAL.get(dtype)
    return (dtype, count) if real is None else (real, 2 * count)


def _others(program: Program, step: Call, part: str, backend: Backend) -> Iterator[Call]:
    """Yields the step with one of its arguments otherwise, so that the call is another one."""
    found = (
        _other_messages(program, step, part, backend)
        if isinstance(step, Message)
        else _other_collectives(step, backend)
    )
    for changes in found:
        try:
            other = replace(step, **changes)
        except UsageError:  # an operation that is not defined for the dtype
            continue
        if facts(other, part) != facts(step, part):
            yield other


def _other_collectives(step: CollectiveStep, backend: Backend) -> Iterator[Mapping[str, Any]]:
    if step.kind == "barrier":
        return
    yield {"takes": None, "shape": _longer(step.shape)}
    for dtype in backend.takes(step.kind):
        yield {"takes": None, "dtype": dtype}
    for op in OPERATIONS if step.kind in REDUCING else ():
        yield {"takes": None, "op": op}
    if step.kind in backend.managed:
        yield {"takes": None, "managed": not step.managed}
    for root in range(len(step.group)) if step.kind in ROOTED else ():
        yield {"takes": None, "root": root}


def _other_messages(
    program: Program, step: Message, part: str, backend: Backend
) -> Iterator[Mapping[str, Any]]:
    yield {"shape": _longer(step.shape)}
    for dtype in backend.dtypes:
        yield {"dtype": dtype}
    unused = 1 + max(each.tag for each in program.steps if isinstance(each, Message))
    yield {"tag": unused}  # which a message of objects cannot have
    for rank in step.group:
        if rank not in (step.source, step.target):
            yield {"target": rank} if part == SEND else {"source": rank}


def _longer(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0] + 1, *shape[1:]) if shape else (2,)


def to_json(mutation: Mutation) -> dict[str, Any]:
    """Encodes a mutation as JSON-able values, from which ``from_json`` restores it."""
    value = {**asdict(mutation), "change": mutation.change.value}
    return {**value, "step": None if mutation.step is None else step_to_json(mutation.step)}


def from_json(value: Mapping[str, Any]) -> Mutation:
    """Restores a mutation from the values of ``to_json``; raises UsageError for any other values."""
    try:
        step = None if value["step"] is None else step_from_json(value["step"])
        if isinstance(step, Meeting):
            raise UsageError("not a mutation: where ranks meet no call is made")
        other = None if value["other"] is None else (value["other"][0], value["other"][1])
        change = MutationKind(value["change"])
        return Mutation(change, value["rank"], value["number"], value["part"], step, other)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"not a mutation: {error!r}") from error
