"""The pool: keeps a rank set from test to test, and decides whether it is reused or thrown away.

    lease(key) --> the live set of that key, or a new one --> retire() when it is dirty, failed or dead

A process keeps one set: consecutive tests that ask for the same key share it, another key replaces it.
"""

from __future__ import annotations

import operator
import select
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.outcomes import RankOutcome, Status
from harness.protocol import Launch, RepeatLaunch, encode
from harness.ranks.processes import module_import
from harness.ranks.processes.rank_set import RankSet, send_whole
from harness.system.closing import on_close
from harness.system.per_process import PerProcess
from harness.system.scratch import remove, scratch
from harness.wire import framed

# Seconds for the ranks of a set to exit when it is retired; they wait in a read and exit at once.
RETIRE_WAIT_S = 5.0


@dataclass(slots=True)
class PooledSet:
    """A rank set that is kept between tests. Owns ``rdvz_file``, for a process group that the ranks keep."""

    key: Hashable
    ranks: RankSet
    rdvz_file: str
    tests_run: int = 0
    _sent: Launch | None = None
    _kept_group: bool = False

    def send(self, request: Launch, *, file_name: str, keeps_group: bool) -> bool:
        """Sends a test to every rank, with its rendezvous file and whether ranks keep their group.

        Returns False where a rank cannot be told, because it has died or takes no more messages.
        """
        data = framed(self._frame(request, file_name, keeps_group))
        self._sent, self._kept_group = request, keeps_group
        self.tests_run += 1
        self.ranks.turn = self.tests_run
        try:
            for link in self.ranks.links:
                send_whole(link.channel, data)
        except OSError:
            return False
        return True

    def _frame(self, request: Launch, file_name: str, keeps_group: bool) -> bytes:
        """The encoded request without what the ranks know from the request before."""
        sent = self._sent
        known: dict[str, Any] = {}
        current_test = None if sent is None else module_import.new_current_test(request, sent)
        if sent is not None and current_test is not None:
            if keeps_group == self._kept_group and _of_class(request) == _of_class(sent):
                return encode(RepeatLaunch(request.method, file_name, current_test))
            known = _KNOWN if current_test == "" else {}
        return encode(request, pooled=True, file_name=file_name, keeps_group=keeps_group, **known)

    def all_alive(self) -> bool:
        """Whether all ranks are still alive since the last test, and wait in silence for another."""
        if self.ranks.closed:
            return False
        if not self.ranks.poller().poll(0):
            return True
        poll = select.poll()  # ignores output that was printed between two tests
        poll.register(self.ranks.events, select.POLLIN)
        for link in self.ranks.links:
            # A rank that dies closes its channel a moment before the server is notified of its death. What
            # a rank says between two tests would be taken for the next one's report.
            poll.register(link.channel, select.POLLIN)
        return not poll.poll(0)

    def retire(self) -> None:
        """Releases the ranks, ends those that do not exit, and removes the rendezvous file."""
        try:
            if not self.ranks.closed:
                for rank in range(self.ranks.world_size):
                    self.ranks.release(rank)
                self.ranks.wait_until_swept(RETIRE_WAIT_S)
                self.ranks.close()
        finally:
            remove(self.rdvz_file)


# The fields of a request that are the same for all tests of one class.
_of_class = operator.attrgetter(
    *("module", "qualname", "world_size", "threads", "imports", "kwargs", "warning_filters"),
    *("values", "cells"),  # directories of the test's own, where there are any
)

# Fields of a request that are not sent again where the ranks have them already.
_KNOWN: dict[str, Any] = {"environ": {}, "cwd": "", "sys_path": [], "argv": [], "same_surroundings": True}


def with_group_counts_compared(outcomes: tuple[RankOutcome, ...]) -> tuple[RankOutcome, ...]:
    """Adds to each outcome a leak that only a comparison shows: other numbers of process groups begun.

    The same tuple where they are equal.

    torch names process groups by counting those that a rank began to make, so ranks whose counts differ would
    wait forever for each other's next group (pytorch/pytorch#46561, pytorch/pytorch#46563,
    pytorch/pytorch#55967).
    """
    begun = {o.groups_begun for o in outcomes}
    if len(begun) < 2:
        return outcomes
    line = {n: f"process groups begun: {n}, on others {_listed(begun - {n})}" for n in begun}
    return tuple(replace(o, left=(*o.left, line[o.groups_begun])) for o in outcomes)


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def reusable(outcomes: Sequence[RankOutcome]) -> bool:
    """Whether the ranks may run another test: all passed or all skipped, and nothing was left changed."""
    status = outcomes[0].status
    agreed = status in (Status.PASSED, Status.SKIPPED) and all(o.status is status for o in outcomes)
    return agreed and not any(o.left or o.bad for o in outcomes)


class Pool:
    """Owns at most one rank set."""

    def __init__(self) -> None:
        self._kept: PooledSet | None = None

    def lease(self, key: Hashable, make: Callable[[], RankSet]) -> PooledSet:
        """The kept set where it has this key and its ranks are alive, else a new set of ``make()``."""
        kept = self._kept
        if kept is not None and kept.key == key and kept.all_alive():
            return kept
        self.retire()
        file = scratch().new_file("pool")  # first: where this fails, there are no ranks to end
        try:
            self._kept = PooledSet(key, make(), file)
        except BaseException:
            remove(file)
            raise
        return self._kept

    def retire(self) -> None:
        """Ends the kept set, if there is one."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.retire()


def _begin() -> Pool:
    """Makes a pool that is retired before the launchers' servers end."""
    made = Pool()
    on_close(made.retire)
    return made


# Each process has its own pool: a fork of this process must not use its parent's ranks.
_pool = PerProcess(_begin)


def own_pool() -> Pool:
    """This process's pool."""
    return _pool.get()


def retire_pool() -> None:
    """Ends the ranks that this process keeps for later tests, if there are any."""
    kept = _pool.held()
    if kept is not None:
        kept.retire()
