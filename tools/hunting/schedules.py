"""Under which delays of its ranks a program is played, and whether how it ends depends on them: a race.

Of two programs on several ranks one is played as it comes, and one under delays by a seed of its own
(``HARNESS_CHAOS``). A find that is not in the book is played again under others, each of them twice: one
under which a program ends in two ways says nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from harness.communication.record.chaos import PACES, Chaos
from harness.fuzzing.hunted import Hunted, Rejected
from harness.fuzzing.player import played
from harness.settings import EnvVar

# The delays under which a find is played again beside its own.
OTHERS: tuple[int | None, ...] = (None, 1, 2, 3)
# How often under each of them.
TIMES = 2
_WORDS = dict(zip(sorted(PACES), ("quick", "even", "slow"), strict=True))


def delays_of(seed: int, number: int, world_size: int) -> int | None:
    """The seed of delays under which program ``number`` of a fuzzer's seed is played; None for no delays."""
    if world_size == 1 or number % 2 == 0:
        return None
    return random.Random(f"{seed}/{number}/delays").getrandbits(31)


def ends(fuzzer: Hunted[Any], program: Any, own: int | None, others: Iterable[int | None]) -> dict[str, str]:
    """How a program fails by the delays of its ranks, in words; "" where it passes under them."""
    found: dict[str, str] = {}
    for chaos in dict.fromkeys((own, *others)):
        came = {_end(fuzzer, program, chaos) for _ in range(TIMES)}
        if len(came) == 1:
            found[told(chaos, fuzzer.world_size(program))] = came.pop()
    return found


def told(chaos: int | None, world_size: int) -> str:
    """Delays in words: the variable that gives them, and which rank they make slow."""
    if chaos is None:
        return "no delays"
    ranks = (f"rank {rank} {_WORDS[Chaos(chaos, rank).pace]}" for rank in range(world_size))
    return f"{EnvVar.CHAOS}={chaos} ({', '.join(ranks)})"


def _end(fuzzer: Hunted[Any], program: Any, chaos: int | None) -> str:
    try:
        failure = played(fuzzer, program, chaos=chaos)
    except Rejected:
        return "rejected"
    return "" if failure is None else str(failure)
