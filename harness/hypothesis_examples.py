"""``bounded``: decides how many random examples a property test draws, and from which seed.

By default its author sets the number of examples, and every run draws the same ones. For open-ended fuzzing
``HARNESS_EXAMPLES=100000`` (``run_tests.py --examples``) draws that many in each test: those of
``HARNESS_SEED`` (``--seed``), without which each run draws others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any, TypeVar

import hypothesis

from harness import environment
from harness.seeding import base_seed
from harness.settings import EnvVar

Seed = TypeVar("Seed", int, str)
Test = TypeVar("Test", bound=Callable[..., Any])

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def wanted(count: int) -> int:
    """The number of examples to draw: that of ``HARNESS_EXAMPLES`` where it is set, else ``count``."""
    return environment.settings().examples or count


def seed_of_examples(usual: Seed) -> Seed | int:
    """The seed to draw examples from: ``usual``, where no number of them is asked for.

    Else that of the run, if it was given one, and one that no other run has.
    """
    if environment.settings().examples is None:
        return usual
    return base_seed() if os.environ.get(EnvVar.SEED) else random.SystemRandom().getrandbits(32)


def bounded(count: int, **settings: Any) -> Callable[[Test], Test]:
    """A decorator of ``@given`` tests, which then have ``count`` examples, the same in each run.

    With ``HARNESS_EXAMPLES`` that many, from ``seed_of_examples``. Examples have no deadline and hypothesis's
    health checks are off, because a loaded machine may be slow. ``settings`` are further settings of
    hypothesis.
    """
    asked = environment.settings().examples
    limits = hypothesis.settings(
        max_examples=asked or count,
        derandomize=asked is None,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=False,
        **settings,
    )
    if asked is None:
        return limits
    seeded = hypothesis.seed(seed_of_examples(0))
    return lambda test: seeded(limits(test))
