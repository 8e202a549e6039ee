"""Calls as ranks make them, for the tests of what is decided about them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from harness.communication.log_entries import LENGTH, Entry, LoggedCalls
from harness.communication_call import Call, Kind, Signature, to_json

EVERYBODY = (0, 1, 2, 3)
HERE = "t.py:20 in test_x"


def call(
    operation: str = "all_reduce",
    number: int = 1,
    *,
    state: str = "waits",
    members: tuple[int, ...] = EVERYBODY,
    group: str = "0",
    at: float = 0.0,
    **fields: Any,
) -> Call:
    """A collective of the default group, or of another; ``state`` is "waits", "ended" or "begun"."""
    signature = Signature(
        operation,
        group,
        fields.pop("kind", Kind.COLLECTIVE),
        members,
        "" if group == "0" else "t.py:9",
        default=group == "0",
        backend="gloo",
    )
    of_call = {name: fields.pop(name) for name in _OF_CALL if name in fields}
    started = 10.0 + number + at
    return Call(
        replace(signature, **fields),
        number,
        number,
        started,
        None if state == "begun" else started,
        started + 0.5 if state == "ended" else None,
        **{"place": HERE, **of_call},
    )


_OF_CALL = ("place", "threads", "own_work", "unseen", "bounded", "raised", "refused", "by_library")


def logged(calls: Iterable[Call]) -> LoggedCalls:
    """The same calls as a rank's log has them."""
    texts, entries = b"\0" * LENGTH.size, list[Entry]()
    for each in calls:
        offsets = []
        for text in (json.dumps(to_json(each.signature)), each.place):
            offsets.append(len(texts))
            texts += LENGTH.pack(len(text)) + text.encode()
        flags = sum(getattr(each, name) << bit for bit, name in enumerate(_OF_CALL[2:]))
        times = (each.started_s, each.waiting_s or 0.0, each.ended_s or 0.0)
        entries.append((*offsets, each.sequence, each.number, flags, each.threads, 0, *times))
    return LoggedCalls(entries, texts)


def send(peer: int, tag: int = 0, **fields: Any) -> Call:
    """A message to a rank."""
    return call("send", kind=Kind.SEND, peer=peer, tag=tag, **fields)


def receive(peer: int | None, tag: int = 0, **fields: Any) -> Call:
    """A message from a rank, or from any."""
    return call("recv", kind=Kind.RECEIVE, peer=peer, tag=tag, **fields)


def making(number: int, members: tuple[int, ...], **fields: Any) -> Call:
    """The making of a group."""
    return call("new_group", 1, kind=Kind.MAKING, members=members, **{"group": str(number), **fields})


def waits_for_key(key: str = "key", prefix: str = "", **fields: Any) -> Call:
    """A wait on a store, which may put a prefix before the key."""
    return call("store.get", kind=Kind.STORE, key=key, members=(), group=prefix, **fields)


def sets_key(key: str = "key", prefix: str = "") -> Call:
    """A key that was set."""
    return call("store.set", kind=Kind.SETTING, key=key, members=(), group=prefix, state="ended")


def joins(worker: str, workers: int = 4, **fields: Any) -> Call:
    """The joining of RPC under a name."""
    return meets("init_rpc", worker, workers, **fields)


def leaves(worker: str, workers: int = 4, at: float = 8.0, **fields: Any) -> Call:
    """The shutdown of RPC, for which all workers wait."""
    return meets("rpc.shutdown", worker, workers, at=at, **fields)


def meets(operation: str, worker: str, workers: int, **fields: Any) -> Call:
    """What all workers of RPC do together; ``number``: how often they have joined."""
    return call(operation, kind=Kind.WORKERS, key=worker, workers=workers, group="", members=(), **fields)


def asks(worker: str, operation: str = "rpc_sync", **fields: Any) -> Call:
    """A remote call."""
    return call(operation, 5, kind=Kind.ANSWER, key=worker, group="", members=(), **fields)
