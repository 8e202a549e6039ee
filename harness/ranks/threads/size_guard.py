"""``SizeGuard``: refuses a call of other sizes than its peers' before gloo ends the process for it.

gloo aborts the process of a rank that gets more bytes than it expects. Where ranks are threads, that is the
process of all ranks, and of the test: nobody would be left to say what was wrong.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Mapping

from harness.communication.analysis.difference_text import difference_text, message_text
from harness.communication.analysis.matching import Channel, Row, difference, row_key
from harness.communication_call import Call, Kind
from harness.ranks.threads.collective_matcher import MismatchError


class SizeGuard:
    """The calls of a test's ranks on gloo's groups for which peers have yet to come; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[object, dict[int, Call]] = defaultdict(dict)
        self._sends: dict[Channel, deque[Call]] = defaultdict(deque)
        self._receives: dict[Channel, deque[Call]] = defaultdict(deque)
        self._from_any: set[object] = set()

    def check(self, rank: int, call: Call) -> None:
        """Notes that a rank is to make a call; MismatchError where gloo would end the process for it."""
        if call.signature.backend != "gloo":
            return
        with self._lock:
            if call.kind is Kind.COLLECTIVE:
                self._check_collective(rank, call)
            elif call.kind in (Kind.SEND, Kind.RECEIVE):
                self._check_message(rank, call)

    def _check_collective(self, rank: int, call: Call) -> None:
        key, members = row_key(call), call.signature.members
        if key is None or not members:
            return
        mine = self._rows[key]
        mine[rank] = call
        if len(mine) == len(members):
            del self._rows[key]
        found = difference(Row(mine))
        if found is not None and (found.what == "parts" or _other_sizes(mine)):
            raise MismatchError(difference_text(found).text)

    def _check_message(self, rank: int, call: Call) -> None:
        """Compares a message's sender and receiver, unless one received from any: who met whom is unknown."""
        s = call.signature
        sends = s.kind is Kind.SEND
        sender, receiver = (rank, s.peer) if sends else (s.peer, rank)
        if sender is None or receiver is None:
            self._from_any.add((s.group_key, rank, s.tag))
            return
        channel = Channel(s.group_key, sender, receiver, s.tag)
        mine, theirs = (self._sends, self._receives) if sends else (self._receives, self._sends)
        if not theirs[channel]:
            mine[channel].append(call)
            return
        other = theirs[channel].popleft()
        send, receive = (call, other) if sends else (other, call)
        known = (s.group_key, receiver, s.tag) not in self._from_any
        if known and send.signature.nbytes > receive.signature.nbytes:
            raise MismatchError(message_text(channel, send, receive).text)


def _other_sizes(calls: Mapping[int, Call]) -> bool:
    """Whether some rank gives other bytes than another: of none, as in a barrier, gloo sends its own."""
    return len({call.signature.nbytes for call in calls.values()} - {0}) > 1
