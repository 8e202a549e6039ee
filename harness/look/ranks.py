"""``SeenSet`` and ``SeenRank``: the ranks below a process, with what their call logs say at this moment."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.communication import call_log
from harness.communication_call import Call
from harness.look.processes import HeldLog, Process


@dataclass(frozen=True, slots=True)
class SeenRank:
    """A rank: its calls, the start of its test on the monotonic clock (None: not begun), and its test's end.

    ``pid`` is its process, None where there is none here: it is gone, or on another host.
    """

    rank: int
    calls: Sequence[Call] = ()
    began_s: float | None = None
    ended: bool = False
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class SeenSet:
    """The ranks of one test, in order. ``process`` is that of the test, ``test`` its name, "" if unknown."""

    process: int
    test: str
    ranks: tuple[SeenRank, ...]

    @property
    def idle(self) -> bool:
        """Whether no rank is in a test: kept ranks wait for another one."""
        return all(rank.ended or rank.began_s is None for rank in self.ranks)


def seen(processes: Sequence[Process]) -> list[SeenSet]:
    """The sets of ranks of these processes, of which parents come before their children."""
    holders: dict[int, list[tuple[Process, HeldLog]]] = defaultdict(list)
    for process in processes:
        for log in process.logs:
            holders[log.file].append((process, log))
    sets: dict[tuple[int, str], list[tuple[str, SeenRank]]] = defaultdict(list)
    for held in holders.values():
        (parent, log), *others = held
        with contextlib.suppress(OSError):  # closed meanwhile: the test is over
            member = _read(log, others)
            sets[parent.pid, log.of].append(member)
    return [_set(pid, members) for (pid, _), members in sets.items()]


def of_process(sets: Sequence[SeenSet], pid: int) -> Iterator[SeenSet]:
    """The sets of a process of tests that are in a test; all of them where none is."""
    own = [each for each in sets if each.process == pid]
    yield from [each for each in own if not each.idle] or own


def _set(process: int, members: Sequence[tuple[str, SeenRank]]) -> SeenSet:
    ranks = tuple(sorted((rank for _, rank in members), key=lambda each: each.rank))
    return SeenSet(process, next((test for test, _ in members if test), ""), ranks)


def _read(log: HeldLog, others: Sequence[tuple[Process, HeldLog]]) -> tuple[str, SeenRank]:
    """A log's test and its rank; ``others`` are the holders below the process of the test."""
    memory = os.open(log.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        test, ended = call_log.read_test(memory)
        elsewhere = call_log.read_observation(memory) is not None
        began_s, calls = call_log.read_head(memory).began_s, call_log.read(memory)
    finally:
        os.close(memory)
    pid = None if elsewhere else _process_of_rank(others)
    return test, SeenRank(log.rank, calls, began_s, ended, pid)


def _process_of_rank(holders: Sequence[tuple[Process, HeldLog]]) -> int | None:
    """The process of a rank: of those that hold its log below the test's, the one with no log but this.

    A server holds those of all ranks for a moment; what a rank forks holds the rank's, too, further below.
    """
    return next((process.pid for process, _ in holders if len(process.logs) == 1), None)
