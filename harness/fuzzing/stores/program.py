"""``StoreProgram``: the calls of several clients of one store, as a value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from harness.errors import UsageError

#: The kinds of stores; a ``prefix`` one is a part of the other.
KINDS = ("hash", "file", "tcp", "legacy", "prefix hash", "prefix file", "prefix tcp")
#: How clients run: in turns in one thread, or side by side.
WAYS = ("turns", "threads", "ranks")
#: What is done to a client or to the store, and is no method of ``Store``: the client goes on with a clone of
#: its store; another client's process dies within a write; the server is ended, and a new one started.
EVENTS = ("clone", "die", "restart")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a client: a method of ``Store``, or one of ``EVENTS``, with arguments that JSON has."""

    client: int
    method: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreProgram:
    """Calls on a store: in ``turns`` they are made in this order, else each client makes its own in it."""

    kind: str
    way: str
    clients: int
    calls: tuple[Call, ...]

    def __post_init__(self) -> None:
        """Raises UsageError for what cannot be: a kind, a way or a client that is not there."""
        if self.kind not in KINDS or self.way not in WAYS:
            raise UsageError(f"no such kind or way: {self.kind}, {self.way}")
        if self.way == "ranks" and self.kind.endswith("hash"):
            raise UsageError("a HashStore is in one process")
        if any(not 0 <= each.client < self.clients for each in self.calls):
            raise UsageError(f"there are {self.clients} clients")


def to_json(program: StoreProgram) -> dict[str, Any]:
    """A program as values of JSON."""
    return asdict(program)


def from_json(data: dict[str, Any]) -> StoreProgram:
    """The program that ``to_json`` wrote."""
    calls = tuple(Call(each["client"], each["method"], _tuples(each["arguments"])) for each in data["calls"])
    return StoreProgram(data["kind"], data["way"], data["clients"], calls)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
