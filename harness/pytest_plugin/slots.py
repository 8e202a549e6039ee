"""The budget of CPU slots and accelerators that the workers of one pytest-xdist run share.

Each slot is a lock on a file in a directory that the controller names. The system releases a dead process's
locks, so a worker that crashes gives its slots back. A test that needs several takes them while it holds the
*gate*, so that two tests never wait for each other's slots. A test that must run alone also holds the *door*,
through which each test without ranks passes, and waits for the tests without ranks of all workers.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from harness.runner.scheduling.schedule import Capacity
from harness.runner.scheduling.unit import Demand

# Seconds between two looks for a lock. Only the process at the gate looks for slots, and a test on ranks
# takes longer than this.
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Need:
    """What a test takes of the budget."""

    slots: int
    accelerators: int
    alone: bool = False


def need_of(demand: Demand, capacity: Capacity) -> Need:
    """What a test with this demand takes, never more than there is: such a test runs alone on all of it."""
    if demand.exclusive:
        return Need(capacity.slots, capacity.accelerators, alone=True)
    return Need(min(demand.cpu_slots, capacity.slots), min(demand.accelerators, capacity.accelerators))


class SlotBudget:
    """One worker's access to the budget in ``directory``, which is made where it does not exist.

    ``worker`` is this worker's number of ``workers``. ``alone`` says that some test must run alone: without
    one, tests without ranks need no lock.
    """

    def __init__(
        self, directory: Path, capacity: Capacity, worker: int, workers: int, *, alone: bool
    ) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)

        def locks(name: str, count: int) -> tuple[FileLock, ...]:
            return tuple(FileLock(directory / f"{name}-{n}", thread_local=False) for n in range(count))

        self._capacity = capacity
        self._worker = worker
        self._alone = alone
        self._gate, self._door = (*locks("gate", 1), *locks("door", 1))
        self._slots = locks("slot", capacity.slots)
        self._accelerators = locks("accelerator", capacity.accelerators)
        self._without_ranks = locks("without-ranks", workers)

    @contextlib.contextmanager
    def held(self, demand: Demand | None) -> Iterator[None]:
        """Waits until the test may run, and holds what it takes; ``demand`` is None for one without ranks."""
        with contextlib.ExitStack() as held:
            if demand is not None:
                self._take(held, need_of(demand, self._capacity))
            elif self._alone:
                with self._door.acquire(poll_interval=POLL_S):
                    own = self._without_ranks[self._worker]
                    held.enter_context(own.acquire(poll_interval=POLL_S))
            yield

    def _take(self, held: contextlib.ExitStack, need: Need) -> None:
        with self._gate.acquire(poll_interval=POLL_S):
            if need.alone:
                held.enter_context(self._door.acquire(poll_interval=POLL_S))
                take(self._without_ranks, len(self._without_ranks), held)
            take(self._slots, need.slots, held)
            take(self._accelerators, need.accelerators, held)


def take(
    locks: Sequence[FileLock],
    count: int,
    held: contextlib.ExitStack,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Acquires ``count`` of the locks, whichever are free first, and leaves them to ``held``."""
    free = list(locks)
    while count:
        for lock in tuple(free):
            if count and _acquired(lock):
                held.callback(lock.release)
                free.remove(lock)
                count -= 1
        if count:
            sleep(POLL_S)


def _acquired(lock: FileLock) -> bool:
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return False
    return True
