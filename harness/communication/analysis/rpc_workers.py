"""Workers of ``torch.distributed.rpc``: which rank is which, who has not come, whose agent is up. Pure.

A worker is known by its name, which its rank gave to ``init_rpc``. It answers by threads of its agent,
whatever its rank does meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.communication.analysis.matching import CallsByRank
from harness.communication_call import Call, Kind

JOINING, LEAVING = "init_rpc", "rpc.shutdown"


def rank_of(calls: CallsByRank, worker: str) -> int | None:
    """The rank that has joined, or begun to, under this name; None where there is none, or more than one."""
    found = {
        rank for rank, mine in calls.items() if any(c.signature.key == worker for c in _of(mine, JOINING))
    }
    return found.pop() if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class AbsentWorkers:
    """How many workers have not come yet, and the ranks among which they are, which may be more or fewer."""

    ranks: tuple[int, ...] = ()
    count: int = 0


def absent_workers(calls: CallsByRank, waiting: Call) -> AbsentWorkers:
    """For whom a rank waits in a call that all workers have to make, each as often as the others.

    Of no ranks where the workers that have not come are none. It goes by the calls' numbers, since a log may
    have dropped some of them.
    """
    workers, stage = waiting.signature.workers, _stage(waiting)
    come = {each for each, mine in calls.items() if any(_stage(c) >= stage for c in _meetings(mine))}
    if len(come) >= workers:
        return AbsentWorkers()
    joined = [each for each, mine in calls.items() if _of(mine, JOINING)]
    members = joined if len(joined) == workers else calls
    return AbsentWorkers(tuple(each for each in members if each not in come), workers - len(come))


def agent_is_up(mine: Sequence[Call]) -> bool:
    """Whether a rank has joined and not left: its agent's threads may do what any worker asks of them."""
    over = [c.signature.operation for c in _meetings(mine) if c.ended_s is not None]
    return over[-1:] == [JOINING]


def may_be_answered(calls: CallsByRank, waiting: Sequence[Call], never: Collection[int]) -> bool:
    """Whether a rank waits in these calls for an answer, and not that of a rank which ``never`` gives one."""
    first = next(iter(waiting), None)
    if first is None or first.kind is not Kind.ANSWER:
        return False
    return rank_of(calls, first.signature.key) not in never


def _stage(meeting: Call) -> tuple[int, bool]:
    """How far a worker is that has begun this call: the times it has joined, and whether it leaves again."""
    return meeting.number, meeting.signature.operation == LEAVING


def _of(mine: Sequence[Call], operation: str) -> list[Call]:
    return [c for c in _meetings(mine) if c.signature.operation == operation]


def _meetings(mine: Sequence[Call]) -> list[Call]:
    return [c for c in mine if c.kind is Kind.WORKERS]
