"""``OutcomeLog``: the outcomes of a test's ranks in the store of processes that somebody else started."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic
from typing import Any

from harness.outcomes import RankOutcome, Status
from harness.protocol import Lost, Report, decode, encode
from harness.ranks.external.deadlock_watch import ExternalDeadlockWatch, calls_when_stuck
from harness.setting_values import LONGEST_S

# Between two checks for an outcome passes a part of the time that was waited for it already, within these
# seconds. A check takes some 0.1 ms.
ASK_AGAIN_AFTER = 0.1
ASK_SOONEST_S = 0.001
ASK_LATEST_S = 0.05

# How a rank's test can come to an end by itself.
_ON_ITS_OWN = frozenset({Status.PASSED, Status.SKIPPED, Status.FAILED, Status.ERROR})


@dataclass(frozen=True, slots=True)
class LoggedOutcome:
    """A rank's outcome in a test's log; ``lost`` says that its process will not take part in later tests."""

    outcome: RankOutcome
    lost: bool


class OutcomeLog:
    """The outcomes of one test's ranks, in one order for all processes: an append-only list in the store.

    One thread reads while others append: the store's client serves one call at a time, so each side has its
    own client. Every call raises RuntimeError (torch's DistError) where the store is gone or does not answer.
    """

    def __init__(self, writer: Any, reader: Any, key: str) -> None:
        self._writer = writer
        self._reader = reader
        self._key = key

    def watch(self, rank: int, until_s: float) -> ExternalDeadlockWatch:
        """The watch over this test's ranks for the thread that reads; ``until_s`` is the test's deadline."""
        return ExternalDeadlockWatch(self._reader, self._key, rank, until_s)

    def append(self, outcome: RankOutcome, *, lost: bool = False) -> None:
        """Appends an outcome; ``lost`` says that the rank's process will not take part in later tests.

        A rank that was proven to be stuck is deadlocked, whatever it has come to since.
        """
        calls = calls_when_stuck(self._writer, self._key, outcome.rank)
        if calls is not None and outcome.status in _ON_ITS_OWN:
            outcome = replace(outcome, status=Status.DEADLOCKED, error=None, skip_reason=None, calls=calls)
        word = encode((Lost if lost else Report)(outcome)).decode()
        number = 0
        while self._writer.compare_set(f"{self._key}/{number}", "", word) != word.encode():
            number += 1

    def read(
        self, number: int, timeout_s: float, wake: threading.Event | None = None
    ) -> LoggedOutcome | None:
        """The outcome at that place of the log, from 0; None where ``timeout_s`` seconds pass without.

        None also where ``wake`` is set in the meantime.
        """
        key = f"{self._key}/{number}"
        if not asked_for(self._reader, key, timeout_s, wake):
            return None
        message = decode(self._reader.get(key))
        assert isinstance(message, Report | Lost), message
        return LoggedOutcome(message.outcome, isinstance(message, Lost))

    def last_test_of(self, rank: int) -> str:
        """The last test that a rank began, as text for a message."""
        key = f"at/{rank}"
        if not self._writer.check([key]):
            return "it has begun no test"
        return f"the last test that it began is {self._writer.get(key).decode()}"


def there(store: Any, key: str, timeout_s: float) -> bool:
    """Waits, at most ``timeout_s`` seconds, until a key exists; returns whether it does."""
    from torch.distributed import DistStoreError

    if store.check([key]):
        return True
    if timeout_s <= 0:
        return False
    try:
        store.wait([key], timedelta(seconds=min(timeout_s, LONGEST_S)))
    except DistStoreError:
        return bool(store.check([key]))
    return True


def asked_for(store: Any, key: str, timeout_s: float, wake: threading.Event | None = None) -> bool:
    """Does the same as ``there``, but by polling: torch prints a warning for each wait without success.

    An event that is set ends it.
    """
    begun, wake = monotonic(), wake or threading.Event()
    while not store.check([key]):
        waited = monotonic() - begun
        if waited >= timeout_s or wake.wait(min(max(waited * ASK_AGAIN_AFTER, ASK_SOONEST_S), ASK_LATEST_S)):
            return bool(store.check([key]))
    return True
