"""Leaves unittest's and this library's frames out of an exception's tracebacks, so that the user's are seen.

Not shown are what calls a test, a decorator of this library between two functions of the user, the inside of
an ``assert`` method, and functions with a true ``__tracebackhide__``, as by pytest: one of these is
``torch.testing.assert_close``. Which frames those are is decided here for every text of a failure: in ranks,
in the parent, under unittest, pytest and ``run_tests.py``.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from types import TracebackType
from typing import Any

_LIBRARY = __name__.partition(".")[0]
_GROUP: Any = getattr(builtins, "BaseExceptionGroup", ())  # came with Python 3.11


def show_users_frames(error: BaseException, assertion: type[BaseException] = AssertionError) -> None:
    """Replaces the traceback of the exception, its causes and contexts, and the members of groups.

    Each then has the user's frames alone, except that one which is no ``assertion`` still ends with what the
    user called, where it was raised. A traceback without any frame of the user stays whole.
    """
    for each in _chain(error):
        shown = _users_frames(each.__traceback__, to_the_end=not isinstance(each, assertion))
        BaseException.with_traceback(
            each, shown
        )  # an exception that is a frozen dataclass allows nothing else


def has_users_frames(error: BaseException) -> bool:
    """Whether any frame of the exception's own traceback is the user's, or of a library of his."""
    return any(not _is_machinery(entry) for entry in _entries(error.__traceback__))


def _users_frames(trace: TracebackType | None, *, to_the_end: bool) -> TracebackType | None:
    entries = [entry for entry in _entries(trace) if not _is_hidden(entry)]
    users = [not _is_machinery(entry) for entry in entries]
    if not any(users):
        return trace
    last = len(users) - 1 - users[::-1].index(True)
    kept: TracebackType | None = None
    for place in reversed(range(len(entries) if to_the_end else last + 1)):
        if users[place] or place > last:
            at = entries[place]
            kept = TracebackType(kept, at.tb_frame, at.tb_lasti, at.tb_lineno)
    return kept


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_machinery(entry: TracebackType) -> bool:
    """Whether the frame is unittest's, of a module with the same marker, or this library's."""
    names = entry.tb_frame.f_globals
    return "__unittest" in names or str(names.get("__name__")).partition(".")[0] == _LIBRARY


def _is_hidden(entry: TracebackType) -> bool:
    """Whether the function asks to be left out, by pytest's local variable, which may not be a condition."""
    return entry.tb_frame.f_locals.get("__tracebackhide__") is True


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and all that its text shows with it, each once."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        left += (each.__cause__, each.__context__)
        if isinstance(each, _GROUP):
            left += each.exceptions
