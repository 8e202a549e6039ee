"""``predict``: what must come of a mutated program, by playing the calls of all ranks in the abstract. Pure.

The program is played twice. Where every call waits for all that take part, as the strictest backend may have
it, a program that comes to its end with nothing unmatched is right. Where a call waits for what it needs and
no more (a leaf of a broadcast for the root, a send for nobody), one that gets stuck hangs on any backend. It
shares no code with the checker, because it judges that.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.fuzzing.mutation import Mutation, facts
from harness.fuzzing.program import (
    OBJECTS,
    Call,
    CollectiveStep,
    Meeting,
    Message,
    Program,
    Regroup,
    Step,
    Straggler,
)
from harness.fuzzing.schedule import EXPIRES, SEND, RankAction

_FROM_ROOT = ("broadcast", "scatter", "broadcast_object_list", "scatter_object_list")
_TO_ROOT = ("reduce", "gather")  # gather_object tells all members how long the objects are


class Prediction(str, enum.Enum):
    """What must come of a mutated program."""

    DIFFERS = "differs"  # calls that belong together are not alike
    HANGS = "hangs"  # ranks wait for ever
    OPEN = "open"  # a call is left over, for which nobody has to wait
    RIGHT = "right"  # the ranks do nothing wrong


def predict(program: Program, mutation: Mutation) -> Prediction:
    """What must come of a mutated program."""
    weak = _Play(program, mutation, strict=False)
    ended = weak.ends()
    if weak.differs():
        return Prediction.DIFFERS
    if not ended:
        return Prediction.HANGS
    return Prediction.RIGHT if _Play(program, mutation, strict=True).ends() else Prediction.OPEN


class _Place(NamedTuple):
    """Where calls meet: collectives of a group, messages of a channel, by their number there."""

    where: tuple[object, ...]
    nth: int


class _Begun(NamedTuple):
    """A call that a rank has begun."""

    place: _Place
    step: Call
    part: str


@dataclass(slots=True)
class _Rank:
    """One rank: what it has still to do, and what it has begun, by step and part."""

    left: list[RankAction]
    begun: dict[tuple[int, str], _Begun] = field(default_factory=dict)
    counts: dict[tuple[object, ...], int] = field(default_factory=lambda: defaultdict(int))
    made: dict[tuple[int, ...], int] = field(default_factory=lambda: defaultdict(int))  # groups, how often


class _Play:
    """All ranks, that go on as long as any of them can."""

    def __init__(self, program: Program, mutation: Mutation, *, strict: bool) -> None:
        self._strict = strict
        self._steps = mutation.steps(program)
        self._size = program.world_size
        self._ranks = {r: _Rank([*mutation.actions(program, r)]) for r in range(program.world_size)}
        self._at: dict[_Place, dict[tuple[int, str], _Begun]] = defaultdict(dict)  # by rank and part
        self._here: set[tuple[int, int]] = set()  # where all ranks meet: step and rank

    def ends(self) -> bool:
        """Whether all ranks come to their end."""
        while sum(map(self._goes_on, self._ranks)):
            pass
        return not any(rank.left for rank in self._ranks.values())

    def differs(self) -> bool:
        """Whether calls met that are not alike."""
        return any(len({_alike(each) for each in met.values()}) > 1 for met in self._at.values())

    def _goes_on(self, rank: int) -> bool:
        """Lets a rank act until it has to wait; returns whether it has done anything."""
        mine, moved = self._ranks[rank], False
        while mine.left:
            action = mine.left[0]
            step = self._steps[action.number]
            key = (action.number, action.part)
            if isinstance(step, Meeting) or action.part == EXPIRES:
                moved = moved or (action.number, rank) not in self._here
                self._here.add((action.number, rank))
                waited_for = _waited_for(step, rank, self._ranks)
                if not all((action.number, other) in self._here for other in waited_for):
                    return moved
                if isinstance(step, Regroup):
                    mine.made[step.group] += 1
            else:
                if key not in mine.begun:
                    self._begin(rank, key, step)
                    moved = True
                if not action.later and not self._done(rank, mine.begun[key]):
                    return moved
                if action.waits or not action.later:
                    del mine.begun[key]
            mine.left.pop(0)
            moved = True
        return moved

    def _begin(self, rank: int, key: tuple[int, str], step: Call) -> None:
        part, mine = key[1], self._ranks[rank]
        where: tuple[object, ...] = (step.group, mine.made[step.group])
        if isinstance(step, Message):
            where = (*where, step.source, step.target, step.tag)
        nth = mine.counts[where] = mine.counts[where] + 1
        begun = mine.begun[key] = _Begun(_Place(where, nth), step, part)
        self._at[begun.place][rank, part] = begun

    def _done(self, rank: int, call: _Begun) -> bool:
        here = {who for who, _ in self._at[call.place]}
        step = call.step
        if isinstance(step, Message):
            ends = {step.target if call.part == SEND else step.source}
            return ends <= here or (not self._strict and call.part == SEND)
        return self._needed(rank, step) <= here

    def _needed(self, rank: int, step: CollectiveStep) -> set[int]:
        root, everyone = {step.group[step.root]}, set(step.group)
        if self._strict or step.kind == "barrier":
            return everyone
        if step.kind not in OBJECTS and (0 in step.shape or step.uneven):
            return set()  # there may be nothing to wait for
        if step.kind in _FROM_ROOT:
            return root
        return everyone if step.kind not in _TO_ROOT or rank in root else set()


def _waited_for(step: Step, rank: int, everyone: Iterable[int]) -> Iterable[int]:
    """The ranks that have to have come before a rank goes on where ranks meet."""
    if isinstance(step, Straggler):
        return everyone if rank == step.rank else ()
    if isinstance(step, Regroup):
        return step.group if rank in step.group else ()
    return step.group if isinstance(step, CollectiveStep) and rank == step.missing else ()


def _alike(call: _Begun) -> tuple[object, ...]:
    """What calls that meet must have alike."""
    return facts(call.step, "" if isinstance(call.step, Message) else call.part)
