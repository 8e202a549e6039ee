"""The model of a store: what each operation gives and leaves behind, a key at a time or all keys together.

The names are those of ``torch.distributed.Store``; ``remove`` is ``delete_key`` without its answer. A
value is text, whose bytes are its characters in latin-1. What a call gives is its value, None, or one of the
words for an error: ``TIMEOUT`` and ``EMPTY``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

#: A call that waited for a key in vain.
TIMEOUT = "timeout"
#: A call that found nothing in a queue.
EMPTY = "queue is empty"


@dataclass(frozen=True)
class Cell:
    """What a store has for one key: a value, or None; and a queue, which is kept apart from it."""

    value: str | None = None
    queue: tuple[str, ...] = ()


def call(cell: Cell, method: str, arguments: tuple[Any, ...]) -> tuple[Cell, Any]:
    """The cell after a call that concerns its key alone, and what the call gives.

    ``arguments`` are those after the key.
    """
    there = cell.value is not None
    if method == "set":
        return replace(cell, value=arguments[0]), None
    if method == "get":
        return cell, cell.value if there else TIMEOUT
    if method == "add":
        total = int(cell.value or 0) + arguments[0]
        return replace(cell, value=str(total)), total
    if method == "append":
        return replace(cell, value=(cell.value or "") + arguments[0]), None
    if method == "compare_set":
        expected, desired = arguments
        if cell.value == expected or (not there and expected == ""):
            return replace(cell, value=desired), desired
        return cell, cell.value if there else expected
    if method == "delete_key":
        return replace(cell, value=None), there
    if method == "remove":
        return replace(cell, value=None), None
    if method == "check":
        return cell, there or bool(cell.queue)
    if method == "wait":
        return cell, None if there or cell.queue else TIMEOUT
    return _queue_call(cell, method, arguments)


def _queue_call(cell: Cell, method: str, arguments: tuple[Any, ...]) -> tuple[Cell, Any]:
    if method == "queue_push":
        return replace(cell, queue=(*cell.queue, arguments[0])), None
    if method == "queue_len":
        return cell, len(cell.queue)
    assert method == "queue_pop", f"the model has no {method}"
    if not cell.queue:
        return cell, EMPTY
    return replace(cell, queue=cell.queue[1:]), cell.queue[0]


def call_of_all(
    cells: Mapping[str, Cell], method: str, arguments: tuple[Any, ...]
) -> tuple[dict[str, Cell], Any]:
    """``call`` for all keys of a store: the cells after a call, and what it gives."""
    after, keys = dict(cells), [key for key, cell in cells.items() if cell.value is not None]
    if method == "num_keys":
        return after, len(keys)
    if method == "list_keys":
        return after, sorted(keys)
    if method == "multi_set":
        for key, value in zip(*arguments, strict=True):
            after[key] = call(after.get(key, Cell()), "set", (value,))[0]
        return after, None
    if method in ("multi_get", "check", "wait"):
        one = "get" if method == "multi_get" else method
        given = [call(after.get(key, Cell()), one, ())[1] for key in arguments[0]]
        if method == "check":
            return after, all(given)
        if TIMEOUT in given:
            return after, TIMEOUT
        return after, given if method == "multi_get" else None
    key, *rest = arguments
    after[key], result = call(after.get(key, Cell()), method, tuple(rest))
    return after, result
