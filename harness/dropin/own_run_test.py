"""Judges a test whose class overrides upstream's ``run_test``, by what that does with the test's method.

Such an override mostly repeats upstream's: it catches what the method raises, sends a traceback to the
parent, and leaves with an exit code. The rank's result is made of the exception itself here; an override that
returns, or calls ``super().run_test``, has the meaning that it has upstream.
"""

from __future__ import annotations

import functools
import types
import unittest
from collections.abc import Callable
from typing import Any

from harness.outcomes import Status
from harness.ranks.result import RankResult, final_result

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

RunTest = Callable[[Any, str, Any], Any]
_MARK = "_harness_judged"


def judge(cls: type[Any]) -> None:
    """Has the ``run_test`` that a class defines itself, if it does, judged in its ranks; once a function."""
    own = vars(cls).get("run_test")
    if callable(own) and not hasattr(own, _MARK):
        cls.run_test = _judged(own)


def judge_with_subclasses(cls: type[Any]) -> None:
    """Does so for all subclasses of a class that exist already."""
    for each in cls.__subclasses__():
        judge(each)
        judge_with_subclasses(each)


def _judged(original: RunTest) -> RunTest:
    @functools.wraps(original)
    def run_test(self: Any, test_name: str, parent_pipe: Any) -> Any:
        if not hasattr(parent_pipe, "record"):  # no rank of the harness
            return original(self, test_name, parent_pipe)
        raised: list[Exception] = []
        noting = _noting(getattr(self, test_name), raised)
        setattr(self, test_name, types.MethodType(noting, self))  # bound: rpc tests pickle it by its name
        try:
            returned = original(self, test_name, parent_pipe)
        except SystemExit as ending:
            if parent_pipe.result is not None or not raised or ending.code in (None, 0):
                raise
            result = _result(raised[-1])
            parent_pipe.record(result)
            raise SystemExit(result.exit_code) from ending
        if parent_pipe.result is None:
            parent_pipe.record(RankResult(Status.PASSED, note="by its class's run_test"))
        return returned

    setattr(run_test, _MARK, True)
    return run_test


def _noting(method: Callable[..., Any], raised: list[Exception]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(_case: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except Exception as error:
            raised.append(error)
            raise

    return call


def _result(error: Exception) -> RankResult:
    """The result of a rank whose method has raised."""
    if isinstance(error, unittest.SkipTest):
        return RankResult(Status.SKIPPED, skip_reason=str(error))
    return final_result(None, error, [])
