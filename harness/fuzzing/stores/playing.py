"""Makes the calls of a program on stores of torch, and compares what they give with the model.

The scripts of programs contain this module, so it needs torch alone, and the modules beside it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import resource
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from harness.fuzzing.stores.linearizability import Event, contradiction
from harness.fuzzing.stores.model import EMPTY, TIMEOUT, Cell, call_of_all

HOST = "127.0.0.1"
#: For keys that may not be there.
SHORT = timedelta(milliseconds=20)
#: For clients that come.
LONG = timedelta(seconds=60)
#: A key of FileStore's own, by which it counts its clients.
OWN_KEY = "efcount/"
#: What a client of a TCPStore does not wait for: such a call has its effect before the client's next one has.
UNANSWERED = ("set", "append", "multi_set", "queue_push")
#: After all ends, in nanoseconds.
LATEST = 1 << 63
#: How often clients run side by side, on a new store each time: what depends on the moment shows up sooner.
TURNS = 4

# A call as the scripts have it: the client, the method and its arguments.
Made = tuple[int, str, tuple[Any, ...]]


class Opener:
    """Opens one store of a kind for any number of clients; the first has the server, where there is one."""

    def __init__(self, kind: str, directory: str) -> None:
        self.kind = kind
        self.path = os.path.join(directory, "store")
        self.port = 0
        self._hash = dist.HashStore()
        self._cloned: list[dist.Store] = []  # kept, as one may have the server

    def opened(self, serves: bool) -> dist.Store:
        """A client's store, which waits for keys no longer than ``SHORT``."""
        whole = self._whole(serves)
        store = dist.PrefixStore("part", whole) if self.kind.startswith("prefix") else whole
        store.set_timeout(SHORT)
        return store

    def cloned(self, store: dist.Store) -> dist.Store:
        """The clone with which a client goes on."""
        self._cloned.append(store)
        store.set_timeout(LONG)  # the clone connects within it
        clone = store.clone()
        clone.set_timeout(SHORT)
        return clone

    def restarted(self, clients: int) -> list[dist.Store]:
        """The stores of all clients on a new server in the place of the old one, whose clients are gone."""
        self._cloned.clear()
        return [self.opened(client == 0) for client in range(clients)]

    def _whole(self, serves: bool) -> dist.Store:
        if self.kind.endswith("hash"):
            return self._hash
        if self.kind.endswith("file"):
            return dist.FileStore(self.path, -1)
        store = dist.TCPStore(
            HOST, self.port, None, serves, LONG, wait_for_workers=False, use_libuv=self.kind != "legacy"
        )
        self.port = store.port
        return store

    def dies_in_a_write(self) -> None:
        """Lets a client die, in a process of its own, when a part of what it sets is in the file."""
        child = os.fork()
        if child == 0:
            store = dist.FileStore(self.path, -1)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            size = os.path.getsize(self.path) + 100
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            store.set("a", "v" * 1000)
            os._exit(0)
        os.waitpid(child, 0)


@contextlib.contextmanager
def new_store(kind: str) -> Iterator[Opener]:
    """A store of a kind in a directory of its own."""
    with tempfile.TemporaryDirectory() as directory:
        yield Opener(kind, directory)


def performed(store: dist.Store, method: str, arguments: Sequence[Any]) -> Any:
    """What a call gives, as the model has it. Raises an error that the model does not have."""
    try:
        if method == "list_keys":
            return sorted(set(store.list_keys()) - {OWN_KEY})
        if method == "remove":
            return None if store.delete_key(arguments[0]) in (True, False) else "no bool"
        if method == "wait":
            return store.wait(list(arguments[0]), SHORT)
        if method == "queue_pop":
            return _text(store.queue_pop(arguments[0], False))
        return _text(getattr(store, method)(*_given(method, arguments)))
    except RuntimeError as error:
        if isinstance(error, dist.QueueEmptyError):
            return EMPTY
        if "timeout" in str(error).lower():
            return TIMEOUT
        raise


def _given(method: str, arguments: Sequence[Any]) -> list[Any]:
    """The arguments as torch wants them: keys are str, values bytes."""
    first, *rest = (list(each) if isinstance(each, (tuple, list)) else each for each in arguments or [None])
    if method in ("num_keys", "list_keys"):
        return []
    return [first, *map(_bytes, rest)]


def _bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_bytes(each) for each in value]
    return value.encode("latin-1") if isinstance(value, str) else value


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(each) for each in value]
    return value.decode("latin-1") if isinstance(value, bytes) else value


def in_turns(kind: str, clients: int, calls: Sequence[Made]) -> None:
    """Makes the calls one by one; AssertionError at the first that gives something else than the model."""
    with new_store(kind) as opener:
        stores = [opener.opened(client == 0) for client in range(clients)]
        cells: dict[str, Cell] = {}
        own_keys = stores[0].num_keys()
        for number, (client, method, arguments) in enumerate(calls):
            if method == "clone":
                stores[client] = opener.cloned(stores[client])
            elif method == "die":
                opener.dies_in_a_write()
            elif method == "restart":
                stores.clear()
                stores.extend(opener.restarted(clients))
                cells = {}
            else:
                cells, expected = call_of_all(cells, method, arguments)
                got = performed(stores[client], method, arguments)
                if method in UNANSWERED and not answers_all(kind):
                    stores[client].num_keys()  # is answered, once the server has done what came before
                if method == "num_keys":
                    got -= own_keys
                where = f"call {number}, {method}{arguments} of client {client}"
                assert got == expected, (
                    f"{method} gives {_brief(got)} for {_brief(expected)}\n{where}: {got!r}"
                )


def _brief(value: Any) -> str:
    """A result without what differs from program to program."""
    return (
        value if value in (TIMEOUT, EMPTY) else "a value" if value and isinstance(value, str) else repr(value)
    )


def recorded(store: dist.Store, client: int, calls: Sequence[Made], meet: Callable[[], Any]) -> list[Event]:
    """The calls of a client, made after all clients have met."""
    own = [(method, arguments) for each, method, arguments in calls if each == client]
    events = []
    meet()
    for method, arguments in own:
        began = time.monotonic_ns()
        result = performed(store, method, arguments)
        events.append(Event(client, began, time.monotonic_ns(), method, tuple(arguments), result))
    return events


def on_threads(kind: str, clients: int, calls: Sequence[Made]) -> None:
    """Makes the calls of each client in a thread of its own; AssertionError unless they are linearizable."""
    for _ in range(TURNS):
        barrier = threading.Barrier(clients)
        with new_store(kind) as opener, ThreadPoolExecutor(clients) as threads:
            stores = [opener.opened(client == 0) for client in range(clients)]
            made = functools.partial(recorded, calls=calls, meet=barrier.wait)
            explained(kind, [each for own in threads.map(made, stores, range(clients)) for each in own])


def on_ranks(kind: str, clients: int, calls: Sequence[Made], rank: int, board: dist.Store) -> None:
    """Makes the calls of one client in this rank; AssertionError unless those of all are linearizable."""
    for turn in range(TURNS):
        with new_store(kind) as opener:
            if rank == 0:
                store = opener.opened(True)
                board.set(f"{turn}: place", json.dumps([opener.path, opener.port]))
            else:
                opener.path, opener.port = json.loads(board.get(f"{turn}: place"))
                store = opener.opened(False)
            meet = functools.partial(_met, board, f"{turn}: ready", rank, clients)
            events = recorded(store, rank, calls, meet)
            told = [[e.began, e.ended, e.method, e.arguments, e.result] for e in events]
            board.set(f"{turn}: calls {rank}", json.dumps(told))
            texts = [board.get(f"{turn}: calls {each}") for each in range(clients)]
            del store  # one of a file writes when it goes, so it goes before rank 0 removes the directory
            _met(board, f"{turn}: done", rank, clients)
            own = [(client, json.loads(text)) for client, text in enumerate(texts)]
            explained(kind, [Event(client, *each) for client, calls_of in own for each in calls_of])


def _met(board: dist.Store, where: str, rank: int, clients: int) -> None:
    """Returns when all ranks have come here."""
    board.set(f"{where} {rank}", "")
    for each in range(clients):
        board.get(f"{where} {each}")


def until_answered(events: Sequence[Event]) -> Iterator[Event]:
    """The calls with the ends by which they have had their effect, where the store does not answer them all.

    ``events`` has the calls of each client in their order.
    """
    for number, each in enumerate(events):
        answers = (e.ended for e in events[number:] if e.client == each.client and e.method not in UNANSWERED)
        yield replace(each, ended=next(answers, LATEST))


def answers_all(kind: str) -> bool:
    """Whether every call of a store has had its effect when it returns."""
    return kind.endswith(("hash", "file"))


def explained(kind: str, events: Sequence[Event]) -> None:
    """AssertionError unless the calls of each key have an order that explains what they gave."""
    found = contradiction(events if answers_all(kind) else until_answered(events))
    if found is not None:
        key, own = found
        methods = ", ".join(sorted({each.method for each in own}))
        told = "\n".join(str(each) for each in sorted(own, key=lambda each: each.began))
        raise AssertionError(f"no order of the calls gives what they gave: {methods}\nkey {key!r}\n{told}")


def check(
    kind: str, way: str, clients: int, calls: Sequence[Made], rank: int = 0, board: dist.Store | None = None
) -> None:
    """Makes the calls of a program; AssertionError where a store gives what the model does not."""
    if way == "turns":
        in_turns(kind, clients, calls)
    elif way == "threads":
        on_threads(kind, clients, calls)
    else:
        assert board is not None, "ranks meet at a store"
        on_ranks(kind, clients, calls, rank, board)
