"""Makes programs of stores simpler by one change at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from harness.fuzzing.stores.program import Call, StoreProgram


def simpler(program: StoreProgram) -> Iterator[StoreProgram]:
    """Programs with fewer calls, with fewer clients, on a plainer store, or with plainer values."""
    calls = program.calls
    if len(calls) > 3:
        half = len(calls) // 2
        yield replace(program, calls=calls[half:])
        yield replace(program, calls=calls[:half])
    for number in reversed(range(len(calls))):
        if len(calls) > 1:
            yield replace(program, calls=calls[:number] + calls[number + 1 :])
    yield from _with_fewer_clients(program)
    if program.kind.startswith("prefix "):
        yield replace(program, kind=program.kind.removeprefix("prefix "))
    if program.way == "ranks":
        yield replace(program, way="threads")
    for number, each in enumerate(calls):
        for plainer in _plainer(each.arguments):
            yield replace(
                program,
                calls=(*calls[:number], Call(each.client, each.method, plainer), *calls[number + 1 :]),
            )


def _with_fewer_clients(program: StoreProgram) -> Iterator[StoreProgram]:
    """The last client's calls are the first one's, as long as two remain of those that run side by side."""
    last = program.clients - 1
    if last >= (1 if program.way == "turns" else 2):
        calls = tuple(replace(each, client=0) if each.client == last else each for each in program.calls)
        yield replace(program, clients=last, calls=calls)


def _plainer(arguments: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for place, each in enumerate(arguments):
        if isinstance(each, str) and len(each) > 1:
            yield (*arguments[:place], each[:1], *arguments[place + 1 :])
        elif isinstance(each, int) and each not in (0, 1):
            yield (*arguments[:place], 1, *arguments[place + 1 :])
