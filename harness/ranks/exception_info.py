"""Converts an exception in a rank to an ``ErrorInfo`` that can be sent to the parent; this never raises."""

from __future__ import annotations

import pickle
import traceback

from harness import pytest_outcomes
from harness.errors import MethodNotRun, UsageError
from harness.outcomes import ErrorInfo
from harness.tracebacks import has_users_frames, show_users_frames

# Long enough for any diff that a person reads, short enough that those of 32 ranks fit a terminal's
# scrollback and a report.
MESSAGE_CHARS = 20_000
TRACEBACK_CHARS = 60_000
# The largest pickled exception that is sent to the parent.
PICKLE_BYTES = 256 * 1024


def capture(error: BaseException, assertion: type[BaseException] = AssertionError) -> ErrorInfo:
    """The exception's type, message, traceback with causes and groups, and its pickle if it has one.

    Its own tracebacks are cut down to the user's frames. They are left out where the harness raised it of a
    method that did not run, or of a mistake that no line of the test makes.
    What ``pytest.fail`` raises counts as an assertion.
    Never raises: where the exception's ``str`` or ``__reduce__`` fails, that part is replaced or left out.
    """
    show_users_frames(error, assertion)
    mistake = isinstance(error, UsageError) and not has_users_frames(error)
    if mistake or isinstance(error, MethodNotRun):
        error.__traceback__ = None
    return ErrorInfo(
        type_name=_type_name(type(error)),
        message=cut(_message(error), MESSAGE_CHARS),
        traceback=cut(_format(error), TRACEBACK_CHARS),
        is_assertion=isinstance(error, assertion) or pytest_outcomes.is_failure(error),
        pickled=_pickle(error),
    )


def cut(text: str, limit: int) -> str:
    """Shortens text to about ``limit`` characters: its beginning, the number left out, its end."""
    if len(text) <= limit:
        return text
    keep = limit // 2
    return f"{text[:keep]}\n[... {len(text) - 2 * keep} characters left out ...]\n{text[-keep:]}"


def _type_name(kind: type[BaseException]) -> str:
    plain = kind.__module__ in ("builtins", "__main__")
    return kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as second:  # noqa: BLE001 - the test's class may do anything in __str__
        return f"<str() of the exception raised {type(second).__name__}>"


def _format(error: BaseException) -> str:
    try:
        lines = traceback.format_exception(type(error), error, error.__traceback__)
    except BaseException as second:  # noqa: BLE001 - RecursionError, MemoryError or the exception class's code
        return f"{_type_name(type(error))}: {_message(error)}\n<no traceback: {type(second).__name__}>"
    return "".join(lines).rstrip("\n")


def _pickle(error: BaseException) -> bytes | None:
    try:
        data = pickle.dumps(error)
    except BaseException:  # noqa: BLE001 - __reduce__ is the test's code; the text is sent without the object
        return None
    return data if len(data) <= PICKLE_BYTES else None
