"""What ranks raised, for those who ask what a test raised: a mark ``xfail(raises=...)``, other plugins.

The exception of the test in pytest's process is the harness's, and says which rank raised what.
"""

from __future__ import annotations

import functools
import inspect
import pickle
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from harness.errors import RankTestError
from harness.outcomes import ErrorInfo, RankOutcome, Status

_FLAKY = "flaky"  # the mark of pytest-rerunfailures


def raised_by_ranks(error: BaseException, raises: Any) -> bool:
    """Whether every rank that went wrong raised one of ``raises``: a class, a tuple of them, or a matcher.

    A matcher is what ``pytest.RaisesExc`` and ``RaisesGroup`` make. A rank that died or hung raised nothing.
    """
    outcome = error.outcome if isinstance(error, RankTestError) else None
    bad = [rank for rank in outcome.ranks if rank.bad] if outcome is not None else []
    return bool(bad) and all(_expected(rank, raises) for rank in bad)


def name_cause(error: BaseException) -> None:
    """Makes what the rank that failed first raised the ``__cause__`` of a test's exception, where it can.

    pytest-rerunfailures looks there for what ``only_rerun`` and ``rerun_except`` name.
    """
    outcome = error.outcome if isinstance(error, RankTestError) else None
    if outcome is not None and error.__cause__ is None:
        causes = (rank.error for rank in outcome.ranks if rank.rank == outcome.root_cause)
        error.__cause__ = next((_exception(info) for info in causes if info is not None), None)


def show_to_condition(item: pytest.Item) -> None:
    """Has a ``condition`` of the item's mark of pytest-rerunfailures see what a rank raised as its ``error``.

    After ``name_cause``. Where no rank raised anything, ``error`` stays the harness's exception. Where
    its release gives conditions no ``error``, they stay as they are.
    """
    marker = item.get_closest_marker(_FLAKY)
    evaluate = getattr(item.config.pluginmanager.get_plugin("rerunfailures"), "evaluate_condition", None)
    if marker is None or evaluate is None or "excinfo" not in inspect.signature(evaluate).parameters:
        return
    condition = marker.kwargs.get("condition")
    if (isinstance(condition, str) or callable(condition)) and not isinstance(condition, _OfRank):
        changed = {
            **marker.kwargs,
            "condition": _OfRank(functools.partial(evaluate, item, marker, condition)),
        }
        item.add_marker(getattr(pytest.mark, _FLAKY)(*marker.args, **changed), append=False)


@dataclass(frozen=True, slots=True)
class _OfRank:
    """A condition to which a rank's exception is given; ``evaluate`` takes one like an ``ExceptionInfo``."""

    evaluate: Callable[[Any], bool]

    def __call__(self, error: BaseException | None) -> bool:
        raised = error.__cause__ if isinstance(error, RankTestError) else None
        return self.evaluate(types.SimpleNamespace(value=raised if raised is not None else error))


def _expected(rank: RankOutcome, raises: Any) -> bool:
    errors = [rank.error, *(subtest.error for subtest in rank.bad_subtests)]
    raised = [error for error in errors if error is not None]
    ended = rank.status in (Status.FAILED, Status.ERROR)
    return ended and bool(raised) and all(_matches(error, raises) for error in raised)


def _matches(info: ErrorInfo, raises: Any) -> bool:
    """Whether an exception of a rank is expected; one that cannot be unpickled, by its class's name alone."""
    kinds = raises if isinstance(raises, tuple) else (raises,)
    error = _exception(info)
    if error is None:
        return any(_name(kind) == info.type_name for kind in kinds)
    return any(isinstance(error, k) if isinstance(k, type) else k.matches(error) for k in kinds)


def _exception(info: ErrorInfo) -> BaseException | None:
    """What a rank raised; None where that cannot be pickled or unpickled."""
    try:
        error = pickle.loads(info.pickled) if info.pickled is not None else None
    except Exception:  # noqa: BLE001 - the exception's class may do anything there
        return None
    return error if isinstance(error, BaseException) else None


def _name(kind: Any) -> str:
    plain = getattr(kind, "__module__", "") == "builtins"
    name = getattr(kind, "__qualname__", "")
    return name if plain else f"{getattr(kind, '__module__', '')}.{name}"
