"""Draws programs of stores: few keys and few clients, so that their calls meet."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from harness.fuzzing.stores.model import TIMEOUT, Cell, call_of_all
from harness.fuzzing.stores.program import EVENTS, KINDS, Call, StoreProgram

#: Keys by what they are used for. A counter has numbers only: what ``add`` does to text stands in the book.
REGISTERS = ("a", "b", "", "part/a", "a b\n")
COUNTERS = ("n", "m")
QUEUES = ("q",)
#: How many calls a program has, and how many of them a client makes that runs beside others.
MOST_IN_TURNS = 16
MOST_SIDE_BY_SIDE = 6
#: One in so many calls of a FileStore in turns may wait in vain, which takes it a second, or be
#: ``delete_key``, whose answer the book knows to be wrong; ``remove`` stands for it else.
FILE_ONE_IN = 20
#: In one of so many calls on the whole of a FileStore a client dies, after which the others hang.
DIES_ONE_IN = 20
#: A value that nothing has: ``compare_set`` that expects it reads, and waits for nothing.
NEVER = "never"

_VALUES = ("", "1", "2", "x", "\x00\xff", "v" * 300)
_Drawn = tuple[str, tuple[Any, ...]]


def drawn(seed: int) -> StoreProgram:
    """A program that follows from the seed."""
    choice = random.Random(seed)
    kind = choice.choice(KINDS)
    way = choice.choice(("turns", "threads") if kind.endswith("hash") else ("turns", "threads", "ranks"))
    clients = choice.choice((1, 2, 2, 3)) if way == "turns" else choice.choice((2, 2, 3))
    if way == "turns":
        order = [choice.randrange(clients) for _ in range(choice.randint(2, MOST_IN_TURNS))]
    else:
        order = [client for client in range(clients) for _ in range(choice.randint(1, MOST_SIDE_BY_SIDE))]
    calls, cells = [], dict[str, Cell]()
    for client in order:
        method, arguments = _call(choice, kind, way == "turns")
        if "file" in kind and (way != "turns" or choice.randrange(FILE_ONE_IN)):
            method, arguments = _quick(method, arguments, cells if way == "turns" else {})
        if way == "turns" and method not in EVENTS:
            cells, _ = call_of_all(cells, method, arguments)
        calls.append(Call(client, method, arguments))
    return StoreProgram(kind, way, clients, tuple(calls))


def _quick(method: str, arguments: tuple[Any, ...], cells: dict[str, Cell]) -> _Drawn:
    """A call of a FileStore, or one in its place that does not wait in vain, by what the store has then."""
    if method == "delete_key":
        return "remove", arguments
    if method in ("get", "wait", "multi_get") and call_of_all(cells, method, arguments)[1] == TIMEOUT:
        key = arguments[0] if method == "get" else arguments[0][0]
        return "compare_set", (key, NEVER, NEVER)
    return method, arguments


def _call(choice: random.Random, kind: str, in_turns: bool) -> _Drawn:
    if in_turns and choice.random() < 0.15:
        return _of_the_whole(choice, kind)
    uses: list[Callable[[random.Random, bool], _Drawn]] = [_of_register, _of_register, _of_counter]
    if has_queues(kind):
        uses.append(_of_queue)
    return choice.choice(uses)(choice, in_turns)


def has_queues(kind: str) -> bool:
    """Whether a kind of store has queues; the others say that they have none."""
    return "file" not in kind and kind != "legacy"


def _of_the_whole(choice: random.Random, kind: str) -> _Drawn:
    methods = ["num_keys", "num_keys", "list_keys", "clone"]
    if kind in ("tcp", "legacy"):
        methods.append("restart")
    elif kind == "file" and choice.randrange(DIES_ONE_IN) == 0:
        methods = ["die"]
    return choice.choice(methods), ()


def _of_register(choice: random.Random, in_turns: bool) -> _Drawn:
    keys = REGISTERS if in_turns else REGISTERS[:2]
    key, value, other = choice.choice(keys), choice.choice(_VALUES), choice.choice(_VALUES)
    some = tuple(choice.choice(keys) for _ in range(choice.randint(0, 3) if in_turns else 1))
    return choice.choice(
        (
            ("set", (key, value)),
            ("set", (key, value)),
            ("get", (key,)),
            ("get", (key,)),
            ("compare_set", (key, other, value)),
            ("append", (key, value)),
            ("delete_key", (key,)),
            ("check", (some,)),
            ("wait", (some,)),
            ("multi_get", (some,)),
            ("multi_set", (some, tuple(choice.choice(_VALUES) for _ in some))),
        )
    )


def _of_counter(choice: random.Random, in_turns: bool) -> _Drawn:
    key = choice.choice(COUNTERS if in_turns else COUNTERS[:1])
    added = choice.choice((1, 1, 0, -3, 1 << 40))
    return choice.choice(
        (
            ("add", (key, added)),
            ("add", (key, added)),
            ("get", (key,)),
            ("set", (key, "7")),
            ("compare_set", (key, "1", "-2")),
            ("delete_key", (key,)),
        )
    )


def _of_queue(choice: random.Random, in_turns: bool) -> _Drawn:
    key = choice.choice(QUEUES)
    return choice.choice(
        (
            ("queue_push", (key, choice.choice(_VALUES))),
            ("queue_push", (key, choice.choice(_VALUES))),
            ("queue_pop", (key,)),
            ("queue_len", (key,)),
            ("check", ((key,),)),
            ("get", (key,)),
        )
    )
