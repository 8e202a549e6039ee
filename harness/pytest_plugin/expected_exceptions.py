"""Whether the ranks of a test raised what its mark ``xfail(raises=...)`` expects.

The exception of the test in pytest's process is the harness's, and says which rank raised what.
"""

from __future__ import annotations

import pickle
from typing import Any

from harness.errors import RankTestError
from harness.outcomes import ErrorInfo, RankOutcome, Status


def raised_by_ranks(error: BaseException, raises: Any) -> bool:
    """Whether every rank that went wrong raised one of ``raises``: a class, a tuple of them, or a matcher.

    A matcher is what ``pytest.RaisesExc`` and ``RaisesGroup`` make. A rank that died or hung raised nothing.
    """
    outcome = error.outcome if isinstance(error, RankTestError) else None
    bad = [rank for rank in outcome.ranks if rank.bad] if outcome is not None else []
    return bool(bad) and all(_expected(rank, raises) for rank in bad)


def _expected(rank: RankOutcome, raises: Any) -> bool:
    errors = [rank.error, *(subtest.error for subtest in rank.bad_subtests)]
    raised = [error for error in errors if error is not None]
    ended = rank.status in (Status.FAILED, Status.ERROR)
    return ended and bool(raised) and all(_matches(error, raises) for error in raised)


def _matches(info: ErrorInfo, raises: Any) -> bool:
    """Whether an exception of a rank is expected; one that cannot be unpickled, by its class's name alone."""
    kinds = raises if isinstance(raises, tuple) else (raises,)
    try:
        error = pickle.loads(info.pickled) if info.pickled is not None else None
    except Exception:  # noqa: BLE001 - the exception's class may do anything there
        error = None
    if error is None:
        return any(_name(kind) == info.type_name for kind in kinds)
    return any(isinstance(error, k) if isinstance(k, type) else k.matches(error) for k in kinds)


def _name(kind: Any) -> str:
    plain = getattr(kind, "__module__", "") == "builtins"
    name = getattr(kind, "__qualname__", "")
    return name if plain else f"{getattr(kind, '__module__', '')}.{name}"
