"""``prove``: which ranks can never move again, by what each waits for. Pure.

A rank in a collective waits for the members that have not begun it, in a receive for its source, in the
making of a group for the other members, on a store's key for anybody. A rank that has reported or is gone
never comes; one that runs anything else may, and so may one whose agent of ``torch.distributed.rpc`` is up:
that does what any worker asks of it, but for shutting down. The stuck ranks are the greatest set of ranks
that wait only for each other and for ranks that never come (the wait-for graphs of MUST, Hilbrich et al. 2009
and 2012, with AND for collectives and OR for a receive from any source).

What a rank waits for is read from its log, so a rank that could go on and got no processor would look stuck.
``RankView.can_move`` is for the observer to say: it is True unless every thread of the rank sleeps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.communication.analysis.matching import (
    CallsByRank,
    Channel,
    Messages,
    Row,
    difference,
    messages,
    row_key,
    rows,
)
from harness.communication.analysis.rpc_workers import (
    LEAVING,
    absent_workers,
    agent_is_up,
    may_be_answered,
    rank_of,
)
from harness.communication.analysis.store_keys import may_be_set, workers_of
from harness.communication_call import Call, Kind

# How the names of threads begin that serve other processes, so that their work is none of their own rank's:
# of a store's server, and the one of RPC's agent that polls shared memory and never sleeps.
SERVING = ("pt_tcpstore", "TP_SHM_reactor")
# Operations of which a rank that is not the root needs the root, and maybe ranks in between.
_FROM_ROOT = frozenset({"broadcast", "scatter", "broadcast_object_list", "scatter_object_list"})
_TO_ROOT = frozenset({"reduce", "gather", "gather_object"})
# Backends whose send waits until the message is received.
_SEND_WAITS = frozenset({"gloo", "nccl", "threaded"})


@dataclass(frozen=True, slots=True)
class RankView:
    """What is known of one rank.

    ``settled``: it has reported or is gone. ``helped``: it has started processes, which may set a key.
    """

    rank: int
    calls: Sequence[Call] = ()
    settled: bool = False
    can_move: bool = False
    helped: bool = False

    def waiting(self) -> list[Call]:
        """The calls of which each has to end before the rank goes on; [] where it waits for none."""
        innermost = next((call for call in reversed(self.calls) if call.waits), None)
        if innermost is None:
            return []
        if innermost.kind is not Kind.IN_CPP:  # what it began to wait for at one moment it needs as a whole
            since = innermost.waiting_s
            return [c for c in self.calls if c.waits and c.waiting_s == since]
        since = innermost.started_s
        return [c for c in self.calls if c.unseen and c.ended_s is None and c.started_s >= since]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A stuck rank: the call in which it waits, and the ranks for which it waits."""

    rank: int
    call: Call
    waits_for: tuple[int, ...]


@dataclass(slots=True)
class _Need:
    """What has to happen for a call to go on: any of ``ranks`` comes, or with ``everyone`` each of them.

    ``free``: the call goes on by itself. ``never``: nothing helps any more.
    """

    ranks: tuple[int, ...] = ()
    everyone: bool = False
    free: bool = False
    never: bool = False

    def possible(self, able: set[int]) -> bool:
        if self.free:
            return True
        if self.never:
            return False
        return all(r in able for r in self.ranks) if self.everyone else any(r in able for r in self.ranks)


@dataclass(slots=True)
class _Graph:
    calls: CallsByRank
    until_s: float
    helped: bool = False
    over: bool = False
    never_answer: Collection[int] = ()
    rows: Mapping[tuple[object, ...], Row] = field(init=False)
    messages: Messages = field(init=False)
    made_apart: Collection[object] = field(init=False)

    def __post_init__(self) -> None:
        found = {row_key(row.first): row for row in rows(self.calls)}
        self.rows = {key: row for key, row in found.items() if key is not None}
        self.messages = messages(self.calls)
        made = (row for row in self.rows.values() if row.first.kind is Kind.MAKING)
        self.made_apart = {_name_of(row.first) for row in made if difference(row) is not None}


def prove(views: Sequence[RankView], until_s: float, *, over: bool = False) -> tuple[Waiting, ...]:
    """The ranks that can never move again, () where there are none.

    ``until_s`` is the test's deadline on the monotonic clock: a call that gives up before it is no proof.
    ``over``: the test has come to it, so that nothing has helped that might have: no other thread of a rank,
    no process that a rank has started, no timeout of a call's own.
    """
    if over:
        return _stuck(views, until_s, over=True)
    in_vain = _shut_down_in_vain(views, until_s)
    up = {v.rank for v in views if agent_is_up(v.calls)}
    views = [replace(v, settled=False, can_move=True) if v.rank in up else v for v in views]
    return tuple(sorted((*_stuck(views, until_s, over=False), *in_vain), key=lambda w: w.rank))


def _shut_down_in_vain(views: Sequence[RankView], until_s: float) -> Iterator[Waiting]:
    """The ranks that wait in ``rpc.shutdown`` for ranks that have reported or are gone.

    The agent of such a rank may be up and answer, but nothing that it is asked lets the others go: a shutdown
    ends when no call is under way any more, and so not one that runs in the answer to a call.
    """
    graph = _Graph({v.rank: v.calls for v in views}, until_s, any(v.helped for v in views))
    able = {v.rank for v in views if not v.settled}
    for view in (v for v in views if not (v.settled or v.can_move) and agent_is_up(v.calls)):
        for call in view.waiting():
            need = _need(graph, view, call)
            if call.signature.operation == LEAVING and not need.possible(able):
                yield Waiting(view.rank, call, need.ranks)


def _stuck(
    views: Sequence[RankView], until_s: float, *, over: bool, never_answer: Collection[int] = ()
) -> tuple[Waiting, ...]:
    """The same, whoever's agent is up; ``never_answer`` are ranks that answer no remote call any more."""
    helped = not over and any(v.helped for v in views)
    graph = _Graph({v.rank: v.calls for v in views}, until_s, helped, over, never_answer)
    able = {view.rank for view in views if not view.settled}
    needs: dict[int, tuple[Call, _Need]] = {}
    for view in views:
        if view.rank in able and not view.can_move:
            found = [(call, _need(graph, view, call)) for call in view.waiting()]
            if found:
                needs[view.rank] = next((each for each in found if each[1].never), found[0])
                if len(found) > 1:
                    needs[view.rank] = _first_hopeless(found)
    stuck = _closure(able, needs)
    return tuple(Waiting(rank, needs[rank][0], needs[rank][1].ranks) for rank in sorted(stuck))


def waits_now(views: Sequence[RankView], *, over: bool = False) -> dict[int, Waiting]:
    """The ranks that wait for others, as if no rank but those could move; ``over`` as of ``prove``."""
    waits = {view.rank: view.waiting() for view in views if not view.settled}
    calls = {view.rank: view.calls for view in views}
    others = {view.rank for view in views if not waits.get(view.rank)}
    # A rank that waits itself may be answering all the same: who has asked it goes on, if it does.
    asking = {rank for rank, found in waits.items() if may_be_answered(calls, found, others)}
    assumed = [RankView(v.rank, v.calls, settled=v.rank in others | asking) for v in views]
    return {each.rank: each for each in _stuck(assumed, 0.0, over=over, never_answer=others)}


def _first_hopeless(found: Sequence[tuple[Call, _Need]]) -> tuple[Call, _Need]:
    """Of several calls that all have to end, the one that needs most: the first that is not free."""
    return next((each for each in found if not each[1].free), found[0])


def _closure(able: set[int], needs: Mapping[int, tuple[Call, _Need]]) -> set[int]:
    """The greatest set of ranks none of which can move, if none outside of it helps."""
    stuck = set(needs)
    while True:
        moving = {rank for rank in stuck if needs[rank][1].possible(able - stuck)}
        if not moving:
            return stuck
        stuck -= moving


def _need(graph: _Graph, view: RankView, call: Call) -> _Need:
    s = call.signature
    if s.kind is Kind.ANSWER:
        asked = rank_of(graph.calls, s.key)
        return _Need((asked,)) if asked in graph.never_answer and asked is not None else _Need(free=True)
    if not graph.over and _may_be_ended(graph, call):
        return _Need(free=True)
    if s.kind is Kind.STORE:
        return _store_need(graph, view, call)
    if s.kind in (Kind.SEND, Kind.RECEIVE):
        return _message_need(graph, view, call)
    if s.kind is Kind.WORKERS:
        absent = absent_workers(graph.calls, call)
        surplus = len(absent.ranks) - absent.count
        helped = graph.helped or (surplus < 0 and not graph.over)  # by workers that are no ranks
        return _Need(absent.ranks, everyone=surplus == 0, free=helped or not absent.ranks)
    key = row_key(call)
    row = graph.rows.get(key) if key is not None else None
    if row is None or not s.members or not set(s.members) <= set(graph.calls):
        return _Need(free=True)
    others = tuple(rank for rank in row.calls if rank != view.rank)
    if difference(row) is not None or _name_of(call) in graph.made_apart:
        return _Need(others, never=True)
    if not row.missing() and _is_behind_a_difference(graph, call):
        return _Need(others)
    return _collective_need(view, call, row)


def _may_be_ended(graph: _Graph, call: Call) -> bool:
    """Whether a timeout or another thread of the rank may end a call before the test's deadline."""
    since, timeout_s = call.waiting_s or call.started_s, call.signature.timeout_s
    return call.threads > 1 or call.bounded or (timeout_s is not None and since + timeout_s <= graph.until_s)


def _name_of(call: Call) -> object:
    """Under what ranks of a group meet: those that make groups of other members under it meet each other."""
    return (call.signature.group, call.signature.generation)


def _is_behind_a_difference(graph: _Graph, call: Call) -> bool:
    """Whether an earlier collective of the group that is not over differs between ranks.

    A backend works off a group's calls in their order, or with a few threads: it may hold them for ever.
    """
    group, n = call.signature.group_key, call.sequence
    return any(
        row.first.kind is Kind.COLLECTIVE
        and row.first.signature.group_key == group
        and row.first.sequence < n
        and not row.over
        and difference(row) is not None
        for row in graph.rows.values()
    )


def _collective_need(view: RankView, call: Call, row: Row) -> _Need:
    s = call.signature
    missing = tuple(row.missing())
    if not missing:
        return _Need(free=True)  # all have begun it, so it is under way
    if s.operation in _FROM_ROOT or s.operation in _TO_ROOT:
        if s.root in missing:
            return _Need((s.root,), everyone=True)
        gathers = s.operation in _TO_ROOT and s.root == view.rank
        return _Need(missing, everyone=gathers)
    return _Need(missing, everyone=True)


def _message_need(graph: _Graph, view: RankView, call: Call) -> _Need:
    s, found = call.signature, graph.messages
    if s.members and not set(s.members) <= set(graph.calls):
        return _Need(free=True)
    if s.kind is Kind.SEND:
        if s.backend not in _SEND_WAITS and not graph.over:
            return _Need(free=True)
        assert s.peer is not None
        channel = Channel(s.group_key, view.rank, s.peer, s.tag)
        from_any = found.from_any.get((s.group_key, s.peer, s.tag), ())
        received = len(found.receives.get(channel, ())) + len(from_any)
        place = _place_of(call, found.sends[channel])
        return _Need(free=True) if received > place else _Need((s.peer,), everyone=True)
    if s.peer is not None:
        channel = Channel(s.group_key, s.peer, view.rank, s.tag)
        place = _place_of(call, found.receives[channel])
        sent = len(found.sends.get(channel, ()))
        return _Need(free=True) if sent > place else _Need((s.peer,), everyone=True)
    specific = sum(
        len(calls)
        for channel, calls in found.receives.items()
        if (channel.group, channel.receiver, channel.tag) == (s.group_key, view.rank, s.tag)
    )
    place = specific + _place_of(call, found.from_any[s.group_key, view.rank, s.tag])
    if len(found.sends_to(s.group_key, view.rank, s.tag)) > place:
        return _Need(free=True)
    return _Need(tuple(m for m in s.members or graph.calls if m != view.rank))


def _place_of(call: Call, calls: Sequence[Call]) -> int:
    return next(place for place, each in enumerate(calls) if each is call)


def _store_need(graph: _Graph, view: RankView, call: Call) -> _Need:
    """Anybody may set the keys."""
    s = call.signature
    others = _Need(tuple(rank for rank in graph.calls if rank != view.rank))
    if graph.helped:
        return _Need(free=True)
    if s.workers:
        return _Need(free=True) if len(workers_of(graph.calls, call)) >= s.workers else others
    return _Need(free=True) if may_be_set(graph.calls, call) else others
