"""``unequal_counts``: ranks of which one sends another more or fewer messages than that receives. Pure.

Ranks that go through loops of different lengths, as the stages of a pipeline with other numbers of
microbatches, end in a cycle that looks like any other one. What tells is how many messages each had before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from harness.communication.analysis.difference_text import MOST_SIDES
from harness.communication.analysis.matching import CallsByRank, Channel, messages
from harness.communication.call_log import ENTRIES
from harness.communication_call import Call


@dataclass(frozen=True, slots=True)
class UnequalCount:
    """Messages of one rank to another, by how many each of the two began to send and to receive."""

    channel: Channel
    sent: int
    received: int

    def __str__(self) -> str:
        one, other, tag = self.channel.sender, self.channel.receiver, self.channel.tag
        of = f"{_messages(self.sent)} to rank {other}{f' with tag {tag}' if tag else ''}"
        return f"rank {one} sends {of}, which receives {self.received}"


def unequal_counts(calls: CallsByRank, among: Collection[int]) -> tuple[UnequalCount, ...]:
    """Where ranks ``among`` are at odds in how many messages one sends another, after some that arrived.

    So it is also where another rank has sent one of them more. A rank that waits for one of them in vain is
    left out: it is held up. Messages are those of tensors, as an object is several. () where the first calls
    are no longer known.
    """
    if any(len(mine) >= ENTRIES for mine in calls.values()):
        return ()
    return tuple(
        each
        for each in _unequal(calls)
        if each.channel.receiver in among and (each.channel.sender in among or each.sent > each.received)
    )


def _unequal(calls: CallsByRank) -> Iterator[UnequalCount]:
    found = messages(calls)
    for channel, sends in found.sends.items():
        if found.from_any.get((channel.group, channel.receiver, channel.tag)):
            continue  # nobody can say whose messages these took
        sent, received = _plain(sends), _plain(found.receives.get(channel, ()))
        if sent != received and sent and received:
            yield UnequalCount(channel, sent, received)


def _plain(calls: Sequence[Call]) -> int:
    return sum(call.signature.operation in ("send", "recv") for call in calls)


def counts_text(counts: Sequence[UnequalCount]) -> str:
    """What follows a line about ranks that wait for messages: ": ..."; "" for no counts."""
    return f": {'; '.join(map(str, counts[:MOST_SIDES]))}" if counts else ""


def _messages(count: int) -> str:
    return f"{count} message{'s' if count > 1 else ''}"
