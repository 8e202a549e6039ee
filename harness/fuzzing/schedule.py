"""Turns a program into one rank's ordered actions, in an order in which no program can deadlock.

Each action has a place (step, turn), and every rank goes through the places in ascending order: at the
beginning of a step it waits for the handles that are due, then makes the calls that lag behind, then the
step's own; where a member of the group is missing at first, it waits for the others and makes its call behind
those, whose wait has timed out. What blocks at a place depends only on peers' calls at that place or before
it: a synchronous call needs its counterparts at the same place, or at an earlier one if it is the later end
of a message; a wait needs calls of earlier steps. So the ranks that are furthest behind can always go on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.fuzzing.program import CollectiveStep, Delay, Meeting, Message, Program, Regroup, Straggler

#: The turns within a step.
WAIT, LATE, OWN, EXPIRY, MISSING = range(5)
SEND, RECEIVE, ALL, EXPIRES = "send", "receive", "all", "expires"

#: Seconds that ranks wait for one that comes only when they have done so.
EXPIRES_S = 0.02


@dataclass(frozen=True, slots=True, order=True)
class RankAction:
    """One action of a rank: a call for step ``number``, or the wait for that call if ``waits`` is true.

    ``part`` is SEND, RECEIVE or ALL, or EXPIRES: a wait with a timeout, or for those of others to have passed
    where the rank is the missing one. ``place`` orders the actions of all ranks. ``later`` says that the call
    returns a handle.
    """

    place: tuple[int, int]
    number: int
    part: str
    waits: bool = False
    later: bool = False


def schedule(program: Program, rank: int) -> tuple[RankAction, ...]:
    """The actions of ``rank``, in order."""
    actions: list[RankAction] = []
    ends = _ends(program)
    for number, step in enumerate(program.steps):
        if isinstance(step, Message):
            actions += _message(step, number, rank, ends.get(number, len(program.steps) + 1) - 1)
        elif isinstance(step, Meeting):
            actions.append(RankAction((number, OWN), number, ALL))
        elif rank in step.group:
            call, *waits = _call(number, number, number + 1, ALL, step.delay)
            if step.missing is not None:
                actions.append(RankAction((number, EXPIRY), number, EXPIRES))
                call = replace(call, place=(number, MISSING if rank == step.missing else OWN))
            actions += [call, *waits]
    wanted = first_takers(program)
    return tuple(sorted(_hurried(action, wanted, ends) for action in actions))


def _ends(program: Program) -> dict[int, int]:
    """For each call whose group is made anew later, the number of the first such step."""
    ends: dict[int, int] = {}
    last: dict[tuple[int, ...], int] = {}
    for number, step in reversed([*enumerate(program.steps)]):
        if isinstance(step, Regroup):
            last[step.group] = number
        elif not isinstance(step, Straggler) and step.group in last:
            ends[number] = last[step.group]
    return ends


def first_takers(program: Program) -> dict[int, int]:
    """For each step whose output later steps take, the first of those: the wait has to come before it."""
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


def _hurried(action: RankAction, takers: dict[int, int], ends: dict[int, int]) -> RankAction:
    """A wait not later than the first step that takes the output, and than the end of the group."""
    if not action.waits:
        return action
    latest = min(
        action.place[0],
        takers.get(action.number, action.place[0]) if action.part == ALL else action.place[0],
        ends.get(action.number, action.place[0]),
    )
    return RankAction((latest, WAIT), action.number, action.part, waits=True)
