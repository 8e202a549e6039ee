"""`retry_on_connect_failures`: calls a function again that could not connect (to a taken port, say)."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from harness.requirements.argument_checks import listed

Function = TypeVar("Function", bound=Callable[..., Any])

ADDRESS_IN_USE = "Address already in use"
CONNECT_TIMEOUT = "connect() timed out."

# Upstream's number: ten ports in a row that are all taken have another cause than chance.
CONNECT_TRIES = 10
# Seconds. Ports are often free again within milliseconds, so the first wait is short. Waits double, because
# a later failure means a busy machine, up to a limit above which a longer wait does not help.
BACKOFF_FIRST_S = 0.02
BACKOFF_LIMIT_S = 1.0
assert BACKOFF_FIRST_S < BACKOFF_LIMIT_S


@overload
def retry_on_connect_failures(func: Function, connect_errors: Sequence[str] = ...) -> Function: ...
@overload
def retry_on_connect_failures(
    func: None = None, connect_errors: Sequence[str] = ...
) -> Callable[[Function], Function]: ...
def retry_on_connect_failures(func: Any = None, connect_errors: Sequence[str] = (ADDRESS_IN_USE,)) -> Any:
    """Calls the function up to CONNECT_TRIES times, while it raises a RuntimeError with such a message.

    `connect_errors` are parts of messages, compared without case (a TCPStore writes "address already in use",
    the C library "Address already in use"); a single string is one part. Any other error is raised at once.
    When all tries have failed, a RuntimeError that says so is raised from the last error. The decorator is
    used with or without arguments. ValueError where `connect_errors` is empty or has an empty string. A port
    may be taken between its choice and a TCPStore's binding (pytorch/pytorch#12782).
    """
    parts = listed(connect_errors)
    if not parts or not all(isinstance(part, str) and part for part in parts):
        raise ValueError(f"connect_errors is {connect_errors!r}; give the messages to retry on as strings")

    def decorate(function: Function) -> Function:
        return retrying(function, parts, time.sleep)

    return decorate if func is None else decorate(func)


def retrying(function: Function, parts: tuple[str, ...], wait: Callable[[float], object]) -> Function:
    """`function` with retries on messages that have one of `parts`; `wait(seconds)` precedes each retry."""

    @functools.wraps(function)
    def tried(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        for attempt in range(1, CONNECT_TRIES):
            try:
                return function(*args, **kwargs)
            except RuntimeError as error:
                if not is_connect_error(error, parts):
                    raise
            wait(backoff_s(attempt, random.random()))
        return _last_try(function, parts, args, kwargs)

    return tried  # type: ignore[return-value]  # functools.wraps keeps the signature, its type does not say so


def backoff_s(attempt: int, chance: float) -> float:
    """The seconds to wait after this attempt (the first is 1).

    `chance`, drawn from [0, 1), spreads ranks that failed together over half of the time.
    """
    full = min(BACKOFF_FIRST_S * 2.0 ** (attempt - 1), BACKOFF_LIMIT_S)
    return full * (0.5 + chance / 2)


def is_connect_error(error: RuntimeError, parts: tuple[str, ...]) -> bool:
    """Whether the message has one of these parts, without case. A failed assertion never counts as one."""
    message = str(error).lower()
    return not isinstance(error, AssertionError) and any(part.lower() in message for part in parts)


def _last_try(
    function: Callable[..., Any], parts: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    __tracebackhide__ = True
    try:
        return function(*args, **kwargs)
    except RuntimeError as error:
        if not is_connect_error(error, parts):
            raise
        raise RuntimeError(f"no connection after {CONNECT_TRIES} tries: {error}") from error
