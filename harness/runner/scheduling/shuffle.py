"""``ordered``: the order in which the tests of a round run, that of discovery or a seeded random one."""

from __future__ import annotations

import random
from collections.abc import Sequence

from harness.runner.scheduling.unit import Unit


def ordered(units: Sequence[Unit], seed: int | None, number: int) -> Sequence[Unit]:
    """The units in the random order of round ``number``, counted from 1; unchanged where ``seed`` is None.

    Every round has a different order. To resume a round, order all of its units and then leave out those that
    are done: the order depends on how many units there are.
    """
    if seed is None:
        return units
    return random.Random(seed if number == 1 else f"{seed}/{number}").sample(units, len(units))
