"""What a collective must leave on every rank, worked out with numpy alone.

Owns the arithmetic that the tests compare a backend with. Nothing here knows of ``torch`` or of
processes: a function takes what each member of a group holds, as a list in group-rank order, and
returns what each member must hold afterwards, in the same order. ``test_reference.py`` checks these
functions against numbers that were worked out by hand.

The contracts are those of the functions of the same name in ``torch.distributed``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]

#: By the name of the operation in lower case; each reduces axis 0 and keeps the dtype, wrapping as it wraps.
REDUCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "sum": lambda stack: np.add.reduce(stack, axis=0, dtype=stack.dtype),
    "avg": lambda stack: _average(stack),
    "product": lambda stack: np.multiply.reduce(stack, axis=0, dtype=stack.dtype),
    "min": lambda stack: np.minimum.reduce(stack, axis=0),
    "max": lambda stack: np.maximum.reduce(stack, axis=0),
    "band": lambda stack: np.bitwise_and.reduce(stack, axis=0),
    "bor": lambda stack: np.bitwise_or.reduce(stack, axis=0),
    "bxor": lambda stack: np.bitwise_xor.reduce(stack, axis=0),
}


def _average(stack: Array) -> Array:
    """The mean; of whole numbers without what is beyond the point, as backends divide them."""
    total = np.add.reduce(stack, axis=0, dtype=stack.dtype)
    if np.issubdtype(stack.dtype, np.integer):
        return np.trunc(total / len(stack)).astype(stack.dtype)
    return total / stack.dtype.type(len(stack))


def combine(held: Sequence[Array], op: str) -> Array:
    """Return the element-wise reduction of equally shaped arrays; ``op`` is a key of ``REDUCTIONS``."""
    return np.asarray(REDUCTIONS[op](np.stack(held)))


def broadcast(held: Sequence[Array], src: int) -> list[Array]:
    """Everybody ends with what member ``src`` held."""
    return [held[src] for _ in held]


def all_reduce(held: Sequence[Array], op: str) -> list[Array]:
    """Everybody ends with the reduction of what all held."""
    return [combine(held, op) for _ in held]


def reduce(held: Sequence[Array], dst: int, op: str) -> list[Array | None]:
    """Member ``dst`` ends with the reduction; what the others end with is not specified, hence None."""
    return [combine(held, op) if member == dst else None for member in range(len(held))]


def all_gather(held: Sequence[Array]) -> list[list[Array]]:
    """Everybody ends with the list of what all held."""
    return [list(held) for _ in held]


def all_gather_into_tensor(held: Sequence[Array]) -> list[Array]:
    """Everybody ends with what all held, joined along dimension 0."""
    return [np.concatenate(held, axis=0) for _ in held]


def gather(held: Sequence[Array], dst: int) -> list[list[Array] | None]:
    """Member ``dst`` ends with the list of what all held, the others with nothing new."""
    return [list(held) if member == dst else None for member in range(len(held))]


def scatter(parts: Sequence[Array]) -> list[Array]:
    """Member i ends with part i of the list that the source held."""
    return list(parts)


def reduce_scatter(parts: Sequence[Sequence[Array]], op: str) -> list[Array]:
    """Member i ends with the reduction of everybody's part i; ``parts[member][part]``."""
    return [combine([mine[part] for mine in parts], op) for part in range(len(parts))]


def reduce_scatter_tensor(held: Sequence[Array], op: str) -> list[Array]:
    """Member i ends with block i of the reduction, blocks being equal cuts along dimension 0."""
    return list(np.split(combine(held, op), len(held), axis=0))


def all_to_all(parts: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """Member i ends with everybody's part i, by sender; ``parts[member][part]``."""
    return [[mine[receiver] for mine in parts] for receiver in range(len(parts))]


def all_to_all_single(held: Sequence[Array], splits: Sequence[Sequence[int]]) -> list[Array]:
    """Member i ends with everybody's block i, joined along dimension 0 by sender.

    ``splits[sender][receiver]`` is how many rows ``sender`` holds for ``receiver``.
    """
    parts = [np.split(mine, np.cumsum(rows)[:-1], axis=0) for mine, rows in zip(held, splits, strict=True)]
    return [np.concatenate(received, axis=0) for received in all_to_all(parts)]
