"""The order in which a round's tests are placed: discovery's, or a random one that its seed gives again."""

from __future__ import annotations

import random
from collections.abc import Sequence

from harness.runner.unit import Unit


def ordered(units: Sequence[Unit], seed: int | None, number: int) -> Sequence[Unit]:
    """The units in the order of round ``number``, counted from 1; as they come where there is no seed.

    Every round has an order of its own. To go on with a round, order all of its units and leave out those
    that are done.
    """
    if seed is None:
        return units
    return random.Random(seed if number == 1 else f"{seed}/{number}").sample(units, len(units))
