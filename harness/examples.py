"""``bounded``: how many random examples a property test draws, and whether they are the same each time.

By default a property test is a test like any other: its author says how many examples it draws, and they are
the same in each run, so that what passed passes again. ``HARNESS_EXAMPLES=100000`` (``run_tests.py
--examples``) draws that many in each, from a new start each time, to look for more: open-ended fuzzing.
"""

from __future__ import annotations

from typing import Any

import hypothesis

from harness import environment

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def wanted(count: int) -> int:
    """``count``, unless ``HARNESS_EXAMPLES`` asks for another number."""
    return environment.settings().examples or count


def bounded(count: int, **settings: Any) -> hypothesis.settings:
    """Settings of hypothesis, a decorator of ``@given`` tests: ``count`` examples, the same in each run.

    With ``HARNESS_EXAMPLES`` that many, each run others. No deadline an example and no complaint about slow
    drawing: a loaded machine may take any time. ``settings`` are further ones of hypothesis.
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
