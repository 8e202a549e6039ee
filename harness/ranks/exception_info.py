"""Converts an exception in a rank to an ``ErrorInfo`` that can be sent to the parent; this never raises."""

from __future__ import annotations

import pickle
import traceback
import types

from harness.outcomes import ErrorInfo

# Long enough for any diff that a person reads, short enough that those of 32 ranks fit a terminal's
# scrollback and a report.
MESSAGE_CHARS = 20_000
TRACEBACK_CHARS = 60_000
# The largest pickled exception that is sent to the parent.
PICKLE_BYTES = 256 * 1024


def capture(error: BaseException, assertion: type[BaseException] = AssertionError) -> ErrorInfo:
    """The exception's type, message, traceback with causes and groups, and its pickle if it has one.

    Never raises: where the exception's ``str`` or ``__reduce__`` fails, that part is replaced or left out.
    """
    is_assertion = isinstance(error, assertion)
    trace = own_frames(error, assertion)
    return ErrorInfo(
        type_name=_type_name(type(error)),
        message=cut(_message(error), MESSAGE_CHARS),
        traceback=cut(_format(error, trace), TRACEBACK_CHARS),
        is_assertion=is_assertion,
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


def _is_machinery(frame: types.FrameType) -> bool:
    # unittest's own marker for frames that it leaves out of a failure's traceback
    return "__unittest" in frame.f_globals


def own_frames(
    error: BaseException, assertion: type[BaseException] = AssertionError
) -> types.TracebackType | None:
    """The traceback without unittest's frames around the test and, for an assertion, inside it."""
    trace, drop_tail = error.__traceback__, isinstance(error, assertion)
    while trace is not None and _is_machinery(trace.tb_frame):
        trace = trace.tb_next
    if trace is None or not drop_tail:
        return trace
    kept = []
    at: types.TracebackType | None = trace
    while at is not None and not _is_machinery(at.tb_frame):
        kept.append(at)
        at = at.tb_next
    rebuilt: types.TracebackType | None = None
    for each in reversed(kept):
        rebuilt = types.TracebackType(rebuilt, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return rebuilt


def _format(error: BaseException, trace: types.TracebackType | None) -> str:
    try:
        lines = traceback.format_exception(type(error), error, trace)
    except BaseException as second:  # noqa: BLE001 - RecursionError, MemoryError or the exception class's code
        return f"{_type_name(type(error))}: {_message(error)}\n<no traceback: {type(second).__name__}>"
    return "".join(lines).rstrip("\n")


def _pickle(error: BaseException) -> bytes | None:
    try:
        data = pickle.dumps(error)
    except BaseException:  # noqa: BLE001 - __reduce__ is the test's code; the text is sent without the object
        return None
    return data if len(data) <= PICKLE_BYTES else None
