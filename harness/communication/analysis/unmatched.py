"""Messages and keys for which ranks wait in vain: what is sent, set or started instead. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping

from harness.communication.analysis.difference_text import Explanation
from harness.communication.analysis.matching import CallsByRank, Channel, Messages, messages
from harness.communication.analysis.missing_ranks import decisive
from harness.communication.analysis.store_keys import names_of, workers_of
from harness.communication.analysis.wait_graph import Waiting
from harness.communication_call import Call, Kind, Signature


def tags_differ(calls: CallsByRank, waiting: Mapping[int, Waiting]) -> Explanation | None:
    """A receive and a send between two ranks that differ in tag or group, where no other send will follow."""
    decide = decisive(waiting)
    for rank, each in _receives(waiting):
        s = each.signature
        assert s.peer is not None
        held_up = s.peer in waiting and rank not in decide
        for other in calls.get(s.peer, ()):
            if other.kind is not Kind.SEND or other.ended_s is not None or other.signature.peer != rank:
                continue
            if _way(s) == _way(other.signature) or (held_up and waiting[s.peer].call is not other):
                continue
            wanted, sent = _way_texts(s, other.signature)
            return Explanation(
                f"rank {rank} waits for a message of rank {s.peer} {wanted}{each.at}, and rank {s.peer} "
                f"sends it one {sent}{other.at}",
                (s.peer, rank),
            )
    return None


def _way(s: Signature) -> tuple[object, ...]:
    """What a send and a receive between two ranks must have in common."""
    return (s.group_key, s.tag)


def _way_texts(one: Signature, other: Signature) -> tuple[str, str]:
    """In what the ways of two messages differ, of each."""
    texts: list[list[str]] = [[], []]
    for text, s in zip(texts, (one, other), strict=True):
        text += [f"with tag {s.tag}"] if one.tag != other.tag else []
        text += [f"in {s.group_text}"] if one.group_key != other.group_key else []
    return " ".join(texts[0]), " ".join(texts[1])


def misdirected(
    calls: CallsByRank, waiting: Mapping[int, Waiting], gone: Collection[int] = ()
) -> Explanation | None:
    """A message to a rank that receives none of its sender, of whom another rank waits for one; or a message
    to a rank that waits for one of somebody else, who sends it none.

    Which side is wrong nobody can say: the one may have taken the wrong peer, or the other left a call out.
    Ranks that are ``gone`` may have been about to make it.
    """
    found, decide = messages(calls), decisive(waiting)
    for channel, send in _for_nobody(found):
        for rank, each in _receives(waiting):
            s = each.signature
            assert s.peer is not None
            if (s.group_key, s.tag) != (channel.group, channel.tag):
                continue
            if s.peer == channel.sender and channel.sender in decide and channel.receiver not in gone:
                return _sent_elsewhere(channel, send, rank, each)
            wanted = Channel(channel.group, s.peer, rank, s.tag)
            if rank == channel.receiver and rank in decide and not (s.peer in gone or wanted in found.sends):
                return _wanted_of_another(channel, send, s.peer, each)
    return None


def _sent_elsewhere(channel: Channel, send: Call, rank: int, receive: Call) -> Explanation:
    return Explanation(
        f"rank {channel.sender} sends to rank {channel.receiver}{send.at}, which receives nothing from it, "
        f"and rank {rank} waits for a message of rank {channel.sender}{receive.at}",
        (channel.sender, channel.receiver),
    )


def _wanted_of_another(channel: Channel, send: Call, other: int, receive: Call) -> Explanation:
    return Explanation(
        f"rank {channel.receiver} waits for a message of rank {other}{receive.at}, which sends it none, and "
        f"rank {channel.sender} sends it one{send.at}",
        (channel.receiver, other),
    )


def _receives(waiting: Mapping[int, Waiting]) -> Iterator[tuple[int, Call]]:
    """The ranks that wait for a message of a certain rank, with their calls."""
    for rank, each in sorted(waiting.items()):
        if each.call.kind is Kind.RECEIVE and each.call.signature.peer is not None:
            yield rank, each.call


def _for_nobody(found: Messages) -> Iterator[tuple[Channel, Call]]:
    """The first message of each sender to a rank that never receives any from it."""
    for channel, sends in found.sends.items():
        if not found.receives.get(channel) and not found.from_any.get(
            (channel.group, channel.receiver, channel.tag)
        ):
            yield channel, sends[0]


def unset_text(calls: CallsByRank, waiting: Call, *, nobody_left: bool) -> str:
    """For what a rank waits in a store, and what another rank sets under another prefix.

    ``nobody_left``: no rank can do it any more.
    """
    s = waiting.signature
    if s.workers:
        return f"to which {len(workers_of(calls, waiting))} of {s.workers} come"
    if s.operation == "TCPStore":
        return "for a server that nobody has started"
    told = f"for a key that nobody has set{', and nobody is left to set it' if nobody_left else ''}"
    return told + set_instead_text(calls, waiting)


def set_instead_text(calls: CallsByRank, waiting: Call) -> str:
    """What a rank sets in place of the key for which another waits in a store; "" where there is no such.

    It is the same key under another prefix, or the nearest that nobody reads.
    """
    s, settings = waiting.signature, [*_calls_of(calls, Kind.SETTING)]
    if waiting.kind is not Kind.STORE or not s.operation.startswith("store.") or s.workers:
        return ""
    for rank, call in settings:
        if call.signature.key == s.key and call.signature.group != s.group:
            return _instead_text(names_of(waiting)[0], names_of(call)[0], rank, call)
    names = {name for _, call in settings for name in names_of(call)}
    read = {name for _, call in _calls_of(calls, Kind.STORE) for name in names_of(call)}
    wanted = [key for key in names_of(waiting)[1:] if key not in names]
    found = (
        (_likeness(key, name), key, name, rank, call)
        for rank, call in settings
        for name in names_of(call)[1:]
        for key in wanted
        if name not in read
    )
    best = max(found, key=lambda each: each[0], default=None)
    return _instead_text(*best[1:]) if best is not None and best[0] >= _ALIKE else ""


# From what ratio of ``difflib`` on one name is taken for another one misspelt: "kee" for "key" is 0.67.
_ALIKE = 0.6


def _likeness(key: str, name: str) -> float:
    """How much of two names is the same, from 0 to 1, whatever store they are in and in whatever case."""
    one, other = _without_common_prefix(key.lower(), name.lower())
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def _instead_text(key: str, name: str, rank: int, call: Call) -> str:
    wanted, other = _without_common_prefix(key, name)
    return f": it is {wanted!r}, and rank {rank} sets {other!r}{call.at}"


def _calls_of(calls: CallsByRank, kind: Kind) -> Iterator[tuple[int, Call]]:
    return ((rank, call) for rank, mine in calls.items() for call in mine if call.kind is kind)


def _without_common_prefix(one: str, other: str) -> tuple[str, str]:
    """The names of two keys without the prefixes of stores that they have in common."""
    while "/" in one and one.partition("/")[0] == other.partition("/")[0]:
        one, other = one.partition("/")[2], other.partition("/")[2]
    return one, other
