"""Decides on which host each rank of a test runs: on as few hosts as have room, or on all of them."""

from __future__ import annotations

from collections.abc import Sequence


def place(
    world_size: int, slots: Sequence[int], placement: str, first: int = 0, *, least: int = 1
) -> list[int]:
    """The index of a host for each rank; ranks of one host follow each other.

    ``slots`` is how many ranks each host takes before a test spans another one; where all together have too
    few, each takes more than that, as one machine would. ``placement`` is "packed" or "spread". ``first`` is
    the host with which packing begins, so that tests which fit on one host do not all run on the same.
    ``least`` is on how many hosts the ranks have to be; ValueError where there are fewer hosts or ranks.
    """
    if least > min(world_size, len(slots)):
        raise ValueError(f"{world_size} ranks on {least} hosts, of which there are {len(slots)}")
    order = [(first + n) % len(slots) for n in range(len(slots))]
    if placement == "spread":
        chosen = sorted(order[: min(len(slots), world_size)])
    else:
        alone = [host for host in order if slots[host] >= world_size]
        chosen = alone[:1] or order[: _fewest(world_size, [slots[host] for host in order])]
    even = placement == "spread" or len(chosen) < least
    if len(chosen) < least:
        chosen = sorted(order[:least])
    counts = _shares(world_size, [slots[host] for host in chosen], even=even)
    return [host for host, count in zip(chosen, counts, strict=True) for _ in range(count)]


def _fewest(world_size: int, slots: Sequence[int]) -> int:
    """How many of these hosts, from the first on, have room for the ranks; all where that is not enough."""
    room = 0
    for number, each in enumerate(slots, 1):
        room += each
        if room >= world_size:
            return number
    return len(slots)


def _shares(world_size: int, slots: Sequence[int], *, even: bool) -> list[int]:
    """How many ranks each host gets: an equal number, or as many as its slots and what is left equally."""
    counts = [0] * len(slots)
    left = world_size
    if not even:
        for host, room in enumerate(slots):
            counts[host] = min(room, left)
            left -= counts[host]
    for host in range(len(slots)):
        counts[host] += left // len(slots) + (host < left % len(slots))
    return counts
