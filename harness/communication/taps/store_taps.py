"""Where stores are seen: waits for keys, keys that are set, and for what the making of a ``TCPStore`` waits.

A client of a ``TCPStore`` waits for the server as for a key that the server's rank sets; the server waits for
as many workers as it was told of. ``store.barrier`` waits for callers in the same way.
"""

from __future__ import annotations

import functools
import socket
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from harness.communication.record.recorder import NOT_RECORDED
from harness.communication.taps.python_groups import named, on_each_subclass, overrides
from harness.communication.taps.tap_state import Taps
from harness.communication_call import Kind
from harness.compiler_state import uncompiled

_STORES = ("Store", "FileStore", "HashStore", "TCPStore", "PrefixStore")
_GETTERS = ("get", "wait", "multi_get", "queue_pop")
_SETTERS = ("set", "add", "append", "compare_set", "multi_set", "queue_push")
# Names of this machine, under which nobody from another one comes.
_HERE = ("localhost", "127.0.0.1", "::1")


def watch_stores_of_python(store: type[Any], taps: Taps) -> None:
    """Notes that calls nest as soon as there is a class of stores in Python: a group calls it from C++.

    To be called before torch's own stores are wrapped, which look like such a class then.
    """

    def nesting(method: Any, name: str) -> Any:
        del name
        taps.nests = True
        return method

    names = (*_GETTERS, *_SETTERS)
    on_each_subclass(store, names, nesting)
    for owner, name in overrides(store, names):
        nesting(vars(owner)[name], name)


def store_wrappers(distributed: Any, taps: Taps) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """What records the use of stores: owners, names, and the functions to put there."""
    prefixes: _Prefixes = weakref.WeakKeyDictionary()
    kinds = {**dict.fromkeys(_GETTERS, Kind.STORE), **dict.fromkeys(_SETTERS, Kind.SETTING)}
    for store in (getattr(distributed, name) for name in _STORES if hasattr(distributed, name)):
        for name, kind in kinds.items():
            if name in vars(store):
                # By the name of its caller C++ knows that a store of Python has no method of its own.
                yield store, name, named(_store_call(getattr(store, name), name, kind, taps, prefixes), name)
        if "barrier" in vars(store):
            yield store, "barrier", _store_barrier(store.barrier, taps, prefixes)
    yield distributed.PrefixStore, "__init__", _prefixing(distributed.PrefixStore.__init__, prefixes)
    if hasattr(distributed, "TCPStore"):  # not in every build of torch
        yield distributed.TCPStore, "__init__", _connecting(distributed.TCPStore.__init__, taps)


# What the keys of stores begin with, as far as their prefixes were given to them by Python.
_Prefixes = weakref.WeakKeyDictionary[Any, str]


def _prefixing(original: Callable[..., Any], prefixes: _Prefixes) -> Callable[..., Any]:
    @functools.wraps(original)
    def init(self: Any, prefix: Any, store: Any) -> None:
        original(self, prefix, store)
        prefixes[self] = f"{prefixes.get(store, '')}{prefix}/"

    return uncompiled(init)


def _store_call(
    original: Callable[..., Any], name: str, kind: Kind, taps: Taps, prefixes: _Prefixes
) -> Callable[..., Any]:
    operation = f"store.{name}"

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = taps.recorder
        if recorder is None or taps.seen.now:
            return original(self, *args, **kwargs)
        keys = args[0] if args else kwargs.get("key", kwargs.get("keys", ""))
        shown = keys if isinstance(keys, str) else ", ".join(map(str, keys))
        timeout_s = None
        if kind is Kind.STORE:  # others do not wait
            given = args[1] if operation == "store.wait" and len(args) > 1 else kwargs.get("timeout")
            timeout_s = (self.timeout if given is None else given).total_seconds()
        prefix = prefixes.get(self, "")
        token = recorder.uses_store(operation, shown, kind, timeout_s, prefix)
        try:
            return original(self, *args, **kwargs)
        finally:
            recorder.ended(token)

    return uncompiled(call)


def _store_barrier(original: Callable[..., Any], taps: Taps, prefixes: _Prefixes) -> Callable[..., Any]:
    @functools.wraps(original)
    def barrier(self: Any, key: str, world_size: int, timeout: Any = None) -> Any:
        recorder = taps.recorder
        given = () if timeout is None else (timeout,)
        if recorder is None or taps.seen.now:
            return original(self, key, world_size, *given)
        limit = (self.timeout if timeout is None else timeout).total_seconds()
        prefix = prefixes.get(self, "")
        token = recorder.uses_store("store.barrier", key, Kind.STORE, limit, prefix, workers=world_size)
        try:
            return original(self, key, world_size, *given)
        finally:
            recorder.ended(token)

    return uncompiled(barrier)


# -- making a TCPStore


@dataclass(frozen=True, slots=True)
class Connection:
    """What the constructor of a ``TCPStore`` was given, as far as it says for what it waits.

    ``address`` is "HOST:PORT", with one name for this machine; ``workers`` are all of which the server waits
    for, itself included, 0 where it waits for nobody.
    """

    address: str
    serves: bool
    workers: int
    timeout_s: float
    here: bool


def connection_of(
    host_name: str,
    port: int,
    world_size: int | None = None,
    is_master: bool = False,
    timeout: Any = None,
    wait_for_workers: bool = True,
    *_: object,
    **__: object,
) -> Connection:
    """The connection that a ``TCPStore`` of these arguments makes: those of its constructor."""
    here = host_name in (*_HERE, socket.gethostname())
    waits = is_master and wait_for_workers and world_size is not None and world_size > 1
    return Connection(
        f"{'localhost' if here else host_name}:{port}",
        bool(is_master),
        int(world_size or 0) if waits else 0,
        300.0 if timeout is None else timeout.total_seconds(),  # as torch has it
        here,
    )


def _connecting(original: Callable[..., Any], taps: Taps) -> Callable[..., Any]:
    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        recorder = taps.recorder
        if recorder is None:
            original(self, *args, **kwargs)
            return
        try:
            found = connection_of(*args, **kwargs)
        except (AttributeError, TypeError, ValueError):  # arguments that are wrong: torch says in what
            original(self, *args, **kwargs)
            return
        if found.serves:  # clients can connect before the workers have come
            recorder.ended(recorder.uses_store("TCPStore", found.address, Kind.SETTING, None))
        token = NOT_RECORDED
        if found.workers or not found.serves:
            given = ("TCPStore", found.address, Kind.STORE, found.timeout_s)
            token = recorder.uses_store(*given, workers=found.workers, bounded=not found.here)
        try:
            original(self, *args, **kwargs)
        finally:
            recorder.ended(token)
        if found.serves and found.address.endswith(":0"):  # the port is known only now
            address = f"{found.address.removesuffix('0')}{self.port}"
            recorder.ended(recorder.uses_store("TCPStore", address, Kind.SETTING, None))

    return uncompiled(init)
