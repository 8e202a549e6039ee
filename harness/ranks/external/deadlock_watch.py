"""``ExternalDeadlockWatch``: finds ranks of a running test that can never go on, over the ranks' store.

    process r, every LOOK_EVERY_S seconds                          the store
      its log has not changed, and its threads sleep: its calls --> stuck/<rank>
      it has moved since: nothing ------------------------------> stuck/<rank>
      rank 0: reads all of them; two looks in a row prove it ---> deadlocked: these ranks, with their calls
      every process reads that and stops its own test <----------

The proof is ``wait_graph.prove``. Clocks of different hosts have nothing in common, so each process leaves
out a call of its own that gives up before the deadline.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from json import dumps, loads  # by name: a test may have json's replaced while others report
from typing import Any

from harness.communication.analysis.wait_graph import SERVING, RankView, prove
from harness.communication.call_log import Head
from harness.communication_call import Call, call_from_json, to_json, under_way
from harness.system import posix

# Seconds between two looks. One costs two calls of the store; a deadlock is known to all after four of them.
LOOK_EVERY_S = 0.5
_MOVED = "moved"


class ExternalDeadlockWatch:
    """One process's part in the watch over one test. ``store`` is used by the calling thread alone."""

    def __init__(self, store: Any, key: str, rank: int, until_s: float) -> None:
        self._store = store
        self._key = key
        self._rank = rank
        self._until_s = until_s
        self._head: Head | None = None
        self._told = ""
        self._read: dict[int, str] = {}
        self._proven: tuple[int, ...] = ()

    def tell(self, head: Head, calls: Sequence[Call]) -> None:
        """Tells the others whether this process's rank waits, by its log and the state of its threads."""
        still, self._head = head == self._head, head
        waiting = under_way(calls)
        asleep = not posix.could_run("self", without=threading.get_native_id(), serving=SERVING)
        if still and asleep and waiting is not None and waiting.waits and not self._gives_up(waiting):
            self._say(dumps([head.changes, [to_json(call) for call in calls]]))
        else:
            self._say(_MOVED)

    def _gives_up(self, call: Call) -> bool:
        timeout_s = call.signature.timeout_s
        since = call.waiting_s or call.started_s
        return timeout_s is not None and since + timeout_s <= self._until_s

    def _say(self, text: str) -> None:
        if text != self._told and (self._told or text != _MOVED):
            self._store.set(f"{self._key}/stuck/{self._rank}", text)
            self._told = text

    def judge(
        self, silent: Iterable[int], settled: Mapping[int, Sequence[Call]], *, all_of_them: bool = False
    ) -> None:
        """In one process of all: looks whether the silent ranks can go on, and tells all where some cannot.

        With ``all_of_them`` it tells only where none can. ``settled`` are the calls of ranks with an outcome.
        """
        views = [RankView(rank, calls, settled=True) for rank, calls in settled.items()]
        before, self._read = self._read, {rank: self._told_by(rank) for rank in silent}
        for rank, text in self._read.items():
            moved = text == _MOVED or text != before.get(rank)
            views.append(RankView(rank, _calls_in(text), can_move=moved))
        stuck = tuple(waiting.rank for waiting in prove(views, -math.inf))
        enough = len(stuck) == len(self._read) if all_of_them else stuck
        if enough and stuck == self._proven:
            told = {rank: self._read[rank] for rank in stuck}
            self._store.set(f"{self._key}/deadlocked", dumps([len(settled), told]))
        self._proven = stuck

    def _told_by(self, rank: int) -> str:
        key = f"{self._key}/stuck/{rank}"
        return self._store.get(key).decode() if self._store.check([key]) else _MOVED

    def deadlocked(self, settled: int) -> tuple[int, ...]:
        """The ranks that can never go on, as one process has told all; () while there are none.

        ``settled`` is how many outcomes the caller knows: until it knows those that the other process knew,
        it would give another reason.
        """
        key = f"{self._key}/deadlocked"
        if not self._store.check([key]):
            return ()
        known, stuck = loads(self._store.get(key))
        return tuple(map(int, stuck)) if settled >= known else ()


def calls_when_stuck(store: Any, key: str, rank: int) -> tuple[Call, ...] | None:
    """The calls of a rank that all have been told can never go on; None where it can, or nobody has said so.

    What such a rank does afterwards comes of others that have stopped: of connections that they close, say.
    """
    name = f"{key}/deadlocked"
    if not store.check([name]):
        return None
    text = loads(store.get(name))[1].get(str(rank))
    return None if text is None else _calls_in(text)


def _calls_in(text: str) -> tuple[Call, ...]:
    return () if text == _MOVED else tuple(map(call_from_json, loads(text)[1]))
