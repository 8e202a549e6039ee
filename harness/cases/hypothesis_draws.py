"""``same_draws``: draws values with hypothesis inside ranks, the same values on every rank.

``@given`` around a test that communicates cannot work: a rank whose example fails runs it again to shrink it,
alone, while its peers continue with the next one. So the values are drawn first, and the test loops over
them.

Every rank draws the same without communication, because of a seed that all have from the process that started
the test, the same hypothesis, no database of earlier examples, generation alone (no shrinking, no reuse), and
none of the constants that hypothesis collects from the modules that a process happens to have imported. The
last also makes a test draw the same alone as in the middle of a suite. With ``confirm=True`` the ranks
compare their values.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from typing import Any, TypeVar
from unittest import mock

import hypothesis
from hypothesis.internal.conjecture import providers
from hypothesis.strategies import SearchStrategy

from harness.errors import UsageError
from harness.hypothesis_examples import wanted
from harness.seeding import base_seed

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

Value = TypeVar("Value")

# Enough for small and odd values, few enough for collectives over gloo to take a tenth of a second.
EXAMPLES = 25

# Ranks that are threads draw one after the other, because hypothesis is patched while one draws (related:
# HypothesisWorks/hypothesis#4451, HypothesisWorks/hypothesis#2719).
_drawing = threading.Lock()


def same_draws(
    strategy: SearchStrategy[Value],
    count: int = EXAMPLES,
    *,
    seed: int | None = None,
    confirm: bool = False,
) -> tuple[Value, ...]:
    """Up to ``count`` values of a strategy, which depend only on the seed and so are equal on all ranks.

    ``seed`` None is the test's base seed (``HARNESS_SEED``). There are fewer values where the strategy has no
    more. ``HARNESS_EXAMPLES`` overrides the count. With ``confirm`` the ranks of the default process group
    compare their values (by ``repr``): UsageError, on all of them, where they differ. They differ for a
    strategy that depends on the rank, and between machines with different versions of hypothesis.
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

    with _drawing, _no_constants_of_modules():
        collect()
    if confirm:
        _compare(drawn)
    return tuple(drawn)


@contextlib.contextmanager
def _no_constants_of_modules() -> Iterator[None]:
    """A region in which hypothesis uses none of the numbers and strings in this process's own modules.

    Since 6.132 it draws one value in twenty from them (HypothesisWorks/hypothesis#4356,
    HypothesisWorks/hypothesis#4348).
    """
    modules: Any = providers
    if not hasattr(modules, "_get_local_constants"):
        yield
        return
    modules.CONSTANTS_CACHE.cache.clear()
    try:
        with mock.patch.object(modules, "_get_local_constants", modules.Constants):
            yield
    finally:
        modules.CONSTANTS_CACHE.cache.clear()


def _compare(values: list[Any]) -> None:
    """UsageError unless all ranks have the same values; simulated ranks share theirs and are not compared."""
    import torch.distributed as dist

    if not dist.is_initialized() or dist.get_backend() == "fake":
        return
    own = hashlib.sha256(repr(values).encode()).hexdigest()
    all_ranks: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(all_ranks, own)
    others = [str(rank) for rank, theirs in enumerate(all_ranks) if theirs != all_ranks[0]]
    if others:
        raise UsageError(
            f"same_draws: ranks {', '.join(others)} drew other values than rank 0; give all ranks the same "
            "strategy, seed and version of hypothesis"
        )
