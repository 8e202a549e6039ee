"""One rank's actions, in order, from a program; and why no program can deadlock.

Each action stands at a place (step, turn), and every rank goes through the places in ascending order: at the
beginning of a step what is due is waited for, then come the calls that lag behind, then the step's own.
Whatever blocks at a place needs of its peers only calls at that place or before it: a synchronous call its
counterparts at the same place, or before it where it is the later end of a message; a wait, calls at earlier
steps. So the ranks that are furthest behind can always go on.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.fuzzing.program import CollectiveStep, Delay, Message, Program, Straggler

#: The turns within a step.
WAIT, LATE, OWN = range(3)
SEND, RECEIVE, ALL = "send", "receive", "all"


@dataclass(frozen=True, slots=True, order=True)
class RankAction:
    """One thing that a rank does: calls its ``part`` (SEND, RECEIVE or ALL) of step ``number``, or waits for
    it. ``place`` orders the actions of all ranks; ``later`` where the call returns a handle."""

    place: tuple[int, int]
    number: int
    part: str
    waits: bool = False
    later: bool = False


def schedule(program: Program, rank: int) -> tuple[RankAction, ...]:
    """What ``rank`` does, in order."""
    actions: list[RankAction] = []
    for number, step in enumerate(program.steps):
        if isinstance(step, Message):
            actions += _message(step, number, rank, len(program.steps))
        elif isinstance(step, Straggler):
            actions.append(RankAction((number, OWN), number, ALL))
        elif rank in step.group:
            actions += _call(number, number, number + 1, ALL, step.delay)
    wanted = first_takers(program)
    return tuple(sorted(_hurried(action, wanted) for action in actions))


def first_takers(program: Program) -> dict[int, int]:
    """For each step that a later one takes up, the first that does: it is waited for before that."""
    takers: dict[int, int] = {}
    for number, step in enumerate(program.steps):
        if isinstance(step, CollectiveStep) and step.takes is not None:
            takers.setdefault(step.takes, number)
    return takers


def _call(number: int, at: int, earliest_wait: int, part: str, delay: Delay) -> list[RankAction]:
    place = (at, OWN if at == number else LATE)
    if delay is None:
        return [RankAction(place, number, part)]
    wait = RankAction((max(at + 1 + delay, earliest_wait), WAIT), number, part, waits=True)
    return [RankAction(place, number, part, later=True), wait]


def _message(step: Message, number: int, rank: int, end: int) -> list[RankAction]:
    late = min(number + abs(step.lag), end)
    if rank == step.source:
        return _call(number, late if step.lag < 0 else number, late + 1, SEND, step.send)
    if rank == step.target:
        return _call(number, late if step.lag > 0 else number, late + 1, RECEIVE, step.receive)
    return []


def _hurried(action: RankAction, takers: dict[int, int]) -> RankAction:
    taker = takers.get(action.number)
    if not action.waits or action.part != ALL or taker is None or action.place[0] <= taker:
        return action
    return RankAction((taker, WAIT), action.number, action.part, waits=True)
