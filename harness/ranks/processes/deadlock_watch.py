"""``DeadlockWatch``: finds ranks of a running test that can never go on, from their logs and from /proc.

The proof is ``wait_graph.prove``. What it needs besides the logs is that no rank of those that wait could
move and has not been given a processor: between two looks no log has changed, and at both every thread of
these ranks slept. Where ranks are on other hosts, their hosts say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

from harness.communication import call_log
from harness.communication.analysis.missing_ranks import undecided
from harness.communication.analysis.wait_graph import SERVING, RankView, Waiting, prove
from harness.system import posix

# Seconds between two looks. A look costs microseconds a rank; a deadlock is known after three of them.
LOOK_EVERY_S = 0.25
# Seconds by which the clock of another host may be off: far above the half of a round trip, by which it is
# known.
CLOCK_ERROR_S = 0.02
# Looks for which a proof waits for ranks that were in a call and awake at it: on a busy machine a rank may
# still be on its way into the wait in which the others are, and is as deadlocked as they are.
MOST_LOOKS_FOR_OTHERS = 8
# Looks for which it waits for ranks of which it depends who is odd: on a busy machine they may come, or
# leave, seconds later than their peers. These are four seconds: a deadlock is to be known after six.
MOST_LOOKS_FOR_A_MAJORITY = 16


@dataclass(frozen=True, slots=True)
class WatchedRank:
    """One rank: the descriptor of its log, its process, and whether it has reported or is gone.

    ``remote``: the process is on another host, which writes what it sees of it into the log's copy.
    """

    rank: int
    log: int
    pid: int
    settled: bool
    remote: bool = False


class DeadlockWatch:
    """Looks at the ranks of one test every ``LOOK_EVERY_S`` seconds."""

    def __init__(self) -> None:
        self._heads: tuple[object, ...] = ()
        self._proven: tuple[int, ...] = ()
        self._looked_s = 0.0
        self._waited = 0  # looks since a proof, for the ranks that are not in it

    def look(self, ranks: Sequence[WatchedRank], until_s: float) -> tuple[Waiting, ...]:
        """The ranks that can never go on, where two looks in a row prove it; () else.

        ``until_s`` is the test's deadline on the monotonic clock.
        """
        if not self._all_newer(ranks):
            return ()
        self._looked_s = monotonic()
        heads = tuple((r.settled, call_log.read_head(r.log)) for r in ranks)
        still, self._heads = heads == self._heads, heads
        if not still:
            self._proven, self._waited = (), 0
            return ()
        awake = {r.rank for r in ranks if not r.settled and _could_run(r)}
        views = [self._view(r, can_move=r.rank in awake) for r in ranks]
        stuck = prove(views, until_s)
        found = tuple(waiting.rank for waiting in stuck)
        twice, self._proven = found == self._proven, found
        if not twice or not stuck:
            return ()
        on_its_way = any(v.rank in awake and v.calls and v.calls[-1].ended_s is None for v in views)
        most = MOST_LOOKS_FOR_A_MAJORITY if undecided(views, stuck) else MOST_LOOKS_FOR_OTHERS * on_its_way
        self._waited += 1
        last = monotonic() + 2 * LOOK_EVERY_S > until_s  # a proof at the deadline would come too late
        return stuck if self._waited > most or last else ()

    def _view(self, rank: WatchedRank, *, can_move: bool) -> RankView:
        helped = not rank.settled and _has_children(rank)
        calls = call_log.read(rank.log)
        return RankView(rank.rank, calls, settled=rank.settled, can_move=can_move, helped=helped)

    def _all_newer(self, ranks: Sequence[WatchedRank]) -> bool:
        """Whether what other hosts say of their ranks is newer than the last look.

        Only then was every rank at the moment of that look as both looks show it, however late a host's word
        comes.
        """
        seen = (call_log.read_observation(r.log) for r in ranks if r.remote and not r.settled)
        return all(each is not None and each.at_s > self._looked_s + CLOCK_ERROR_S for each in seen)


def _could_run(rank: WatchedRank) -> bool:
    if not rank.remote:
        return posix.could_run(rank.pid, serving=SERVING)
    seen = call_log.read_observation(rank.log)
    return seen is None or seen.can_move


def _has_children(rank: WatchedRank) -> bool:
    if not rank.remote:
        return posix.has_children(rank.pid)
    seen = call_log.read_observation(rank.log)
    return seen is None or seen.helped
