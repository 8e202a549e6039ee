"""Entries that compile nothing, and errors that nobody hears of."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from suites.aot.faults.planted import instead
from suites.planting import Mutant, Touch

AOT = "torch._functorch.aot_autograd"
# By every name that the suite and torch itself call them by.
FUNCTION = (
    f"{AOT}:aot_function",
    f"{AOT}:compiled_function",
    "functorch.compile:aot_function",
    "functorch.compile:compiled_function",
    "torch._functorch.compilers:aot_function",
)
MODULE = (
    f"{AOT}:aot_module",
    f"{AOT}:compiled_module",
    "functorch.compile:aot_module",
    "functorch.compile:compiled_module",
    "torch._functorch.compilers:aot_module",
)
SIMPLIFIED = (
    f"{AOT}:aot_module_simplified",
    "functorch.compile:aot_module_simplified",
    "torch._dynamo.backends.common:aot_module_simplified",
)


def _eager(original: Callable[..., Any], touch: Touch, active: bool) -> Callable[..., Any]:
    @functools.wraps(original)
    def substitute(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        touch()
        if not active:
            return original(function, *args, **kwargs)
        return function

    return substitute


def _swallowing(original: Callable[..., Any], touch: Touch, active: bool) -> Callable[..., Any]:
    """Eager steps in for what cannot be compiled or called."""

    @functools.wraps(original)
    def substitute(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def stepping_in(run: Callable[..., Any], instead: Callable[[], Any]) -> Any:
            try:
                return run()
            except Exception:
                touch()
                if not active:
                    raise
                return instead()

        compiled = stepping_in(lambda: original(function, *args, **kwargs), lambda: function)

        def call(*given: Any, **named: Any) -> Any:
            return stepping_in(lambda: compiled(*given, **named), lambda: function(*given, **named))

        return call

    return substitute


ENTRIES: tuple[Mutant, ...] = (
    instead("aot_function_is_eager", "aot_function returns the function", FUNCTION, _eager),
    instead("aot_module_is_eager", "aot_module returns the module", MODULE, _eager),
    instead("aot_module_simplified_is_eager", "aot_module_simplified returns the module", SIMPLIFIED, _eager),
    instead(
        "error_is_swallowed",
        "eager steps in for what cannot be compiled or run",
        (*FUNCTION, *SIMPLIFIED),
        _swallowing,
    ),
)
