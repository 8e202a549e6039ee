"""``same_draws``: hypothesis inside ranks, with the same values on every rank.

``@given`` around a test that communicates cannot work: a rank whose example fails runs it again to shrink it,
alone, while its peers go on to the next one. So the values are drawn first, and the test loops over them.
"""

from __future__ import annotations

from typing import TypeVar

import hypothesis
from hypothesis.strategies import SearchStrategy

from harness.examples import wanted
from harness.seeding import base_seed

Value = TypeVar("Value")

# Enough to meet the small and the odd ones, few enough for collectives over gloo to take a tenth of a second.
EXAMPLES = 25


def same_draws(
    strategy: SearchStrategy[Value], count: int = EXAMPLES, *, seed: int | None = None
) -> tuple[Value, ...]:
    """Up to ``count`` values of a strategy: a function of the seed, so equal on all ranks.

    ``seed`` None is the test's base seed (``HARNESS_SEED``). Fewer where the strategy has no more. Ranks have
    to have imported the same modules of the tests', from which hypothesis takes some of its values.
    ``HARNESS_EXAMPLES`` asks for another count.
    """
    drawn: list[Value] = []

    @hypothesis.seed(base_seed() if seed is None else seed)
    @hypothesis.settings(
        max_examples=wanted(count),
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def collect(value: Value) -> None:
        drawn.append(value)

    collect()
    return tuple(drawn)
