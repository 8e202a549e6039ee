"""``bounded``: decides how many random examples a property test draws, and whether each run draws the same.

By default a property test is reproducible: its author sets the number of examples, and every run draws the
same ones. ``HARNESS_EXAMPLES=100000`` (``run_tests.py --examples``) draws that many in each test, different
ones in each run, for open-ended fuzzing.
"""

from __future__ import annotations

from typing import Any

import hypothesis

from harness import environment

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def wanted(count: int) -> int:
    """The number of examples to draw: that of ``HARNESS_EXAMPLES`` where it is set, else ``count``."""
    return environment.settings().examples or count


def bounded(count: int, **settings: Any) -> hypothesis.settings:
    """Settings of hypothesis, a decorator of ``@given`` tests: ``count`` examples, the same in each run.

    With ``HARNESS_EXAMPLES``, that many examples, different ones in each run. Examples have no deadline and
    hypothesis's health checks are off, because a loaded machine may be slow. ``settings`` are further
    settings of hypothesis.
    """
    asked = environment.settings().examples
    return hypothesis.settings(
        max_examples=asked or count,
        derandomize=asked is None,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=False,
        **settings,
    )
