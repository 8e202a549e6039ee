"""Recognises the exceptions by which pytest's functions end a test or a module, without importing pytest.

A module or a test that unittest runs, in one process or in a rank, may call ``pytest.skip`` or a helper that
does.
"""

from __future__ import annotations

import sys


def _is(error: BaseException, name: str) -> bool:
    outcomes = sys.modules.get("_pytest.outcomes")
    kind = getattr(outcomes, name, None)
    return isinstance(kind, type) and isinstance(error, kind)


def is_skip(error: BaseException) -> bool:
    """Whether ``pytest.skip`` or ``pytest.importorskip`` raised it."""
    return _is(error, "Skipped")


def skips_module(error: BaseException) -> bool:
    """Whether it is a skip that is meant for a whole module."""
    return is_skip(error) and bool(getattr(error, "allow_module_level", False))


def is_failure(error: BaseException) -> bool:
    """Whether ``pytest.fail`` raised it, which stands for a failed assertion."""
    return _is(error, "Failed") and not is_expected(error)


def is_expected(error: BaseException) -> bool:
    """Whether ``pytest.xfail`` raised it."""
    return _is(error, "XFailed")


def xfail(reason: str) -> BaseException | None:
    """The exception of ``pytest.xfail(reason)``; None where pytest is not imported."""
    kind = getattr(sys.modules.get("_pytest.outcomes"), "XFailed", None)
    return None if kind is None else kind(reason)
