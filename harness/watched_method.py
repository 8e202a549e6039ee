"""Whether a test's method can run on ranks, and ``WatchedMethod``: whether its body ran to its end.

unittest calls a test passed if nothing was raised. It does so too for an ``async def``, whose body only runs
where somebody awaits it, and for a method that it never called, after an earlier test has patched unittest.
"""

from __future__ import annotations

import inspect
import sys
import types
import unittest
from collections.abc import Callable, Mapping
from typing import Any

from harness.errors import MethodNotRun, UsageError

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# What calling a function with ``yield`` or ``async`` returns, the attribute that is None once its body has
# ended, and the word for it.
_DEFERRED: dict[type, tuple[str, str]] = {
    types.CoroutineType: ("cr_frame", "a coroutine"),
    types.GeneratorType: ("gi_frame", "a generator"),
    types.AsyncGeneratorType: ("ag_frame", "an asynchronous generator"),
}


_ORDINARY = "has to be an ordinary function, without async and yield (it may call asyncio.run)"
_MUST_BE_ORDINARY = f"its body did not run: a test method {_ORDINARY}"
_NO_EVENT_LOOP = (
    "an IsolatedAsyncioTestCase cannot run on ranks, because its event loop is that of the process which "
    "starts the test: leave that base out, and call asyncio.run in an ordinary test method"
)
_call_by_unittest = unittest.TestCase._callTestMethod  # type: ignore[attr-defined]  # typeshed leaves it out


def require_ordinary(method: Callable[..., Any] | None, case: unittest.TestCase | None = None) -> None:
    """UsageError, in one line, for a test's method that no rank would run, or for a case with an event loop.

    Decorators that call such a method in a function of their own are not looked through, since they may await
    it: what these return is seen by ``WatchedMethod``, in the ranks.
    """
    __tracebackhide__ = True
    if case is not None and has_event_loop(case):
        raise UsageError(_NO_EVENT_LOOP)
    if is_deferred(method):
        name = getattr(method, "__name__", method)
        kind = "has a yield" if inspect.isgeneratorfunction(method) else "is an async def"
        raise UsageError(f"{name} {kind}, and a test on ranks {_ORDINARY}")


def is_deferred(method: object) -> bool:
    """Whether calling the method runs nothing of its body, because it has ``async`` or ``yield``."""
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(kind(method) for kind in kinds)


def warning_of_pass(case: unittest.TestCase) -> str | None:
    """What to say of a passed test of a class that is not the harness's, whose method unittest has not run.

    Such a pass stays one, as by unittest alone. None where the class has a way of its own to call methods.
    """
    method = getattr(case, getattr(case, "_testMethodName", ""), None)
    if getattr(type(case), "_callTestMethod", None) is not _call_by_unittest:
        return None
    return f"passed, but {_MUST_BE_ORDINARY}" if is_deferred(method) else None


def ways_to_methods() -> dict[str, object]:
    """The functions of ``unittest.TestCase`` by which unittest gets to a test's method, as they are now."""
    return {name: vars(unittest.TestCase)[name] for name in ("__call__", "run", "_callTestMethod")}


def error_of_pass(case: unittest.TestCase, ways: Mapping[str, object]) -> MethodNotRun | None:
    """The error of a passed test whose method perhaps nobody called: a test has replaced one of the ``ways``.

    None where they are what they were before the first test, or the class has a way of its own.
    """
    for name, function in ways_to_methods().items():
        if function is not ways[name] and getattr(type(case), name) is function:
            return MethodNotRun(
                "unittest reported that the test passed, but a test of this process has replaced "
                f"TestCase.{name}, and nobody knows whether the method was called"
            )
    return None


def has_event_loop(case: unittest.TestCase) -> bool:
    """Whether a case is unittest's for coroutines, which runs those that its methods are."""
    module = sys.modules.get("unittest.async_case")  # not imported here, because it imports asyncio
    return module is not None and isinstance(case, module.IsolatedAsyncioTestCase)


class WatchedMethod:
    """The test method of one case. ``call`` is what unittest has to call in place of the method."""

    def __init__(self, case: unittest.TestCase, method: Callable[..., Any]) -> None:
        self._method = method
        self._entered = False
        self._ended = False
        self._returned: Any = None
        is_awaited = has_event_loop(case) and inspect.iscoroutinefunction(method)
        call = self._awaiting() if is_awaited else self._calling()
        # Bound to the case as the method is, because tests of rpc pickle bound methods of their case by name.
        self.call = types.MethodType(_like(method, call), case)

    def _calling(self) -> Callable[..., Any]:
        def call(case: unittest.TestCase, *args: Any, **kwargs: Any) -> Any:
            self._entered = True
            self._returned = self._method(*args, **kwargs)
            self._ended = True
            return self._returned

        return call

    def _awaiting(self) -> Callable[..., Any]:
        async def call(case: unittest.TestCase, *args: Any, **kwargs: Any) -> Any:
            self._entered = True
            self._returned = await self._method(*args, **kwargs)
            self._ended = True
            return self._returned

        return call

    def require_run(self) -> None:
        """Raises MethodNotRun where ``not_run`` has an error."""
        error = self.not_run()
        if error is not None:
            raise error

    def not_run(self) -> MethodNotRun | None:
        """The error of a test that unittest calls passed although its method did not run to its end."""
        if not self._ended:
            seen = "had not returned" if self._entered else "was never called"
            return MethodNotRun(
                f"unittest reported that the test passed, but its method {seen}: something in this process "
                "has patched unittest"
            )
        frame, what = _DEFERRED.get(type(self._returned), ("", ""))
        if getattr(self._returned, frame, None) is None:
            return None
        return MethodNotRun(f"the test's method returned {what}, and {_MUST_BE_ORDINARY}")


def _like(method: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """Gives ``call`` the names and attributes of ``method``, quicker than ``functools.wraps`` does."""
    call.__name__ = getattr(method, "__name__", call.__name__)
    call.__qualname__ = getattr(method, "__qualname__", call.__qualname__)
    call.__dict__.update(getattr(method, "__dict__", {}))
    return call
