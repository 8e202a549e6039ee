"""Helpers that stand beside the decorators upstream: a look at what was printed, and at what DDP logged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

# From here on a C++ error's text is its stack.
CPP_STACK_MARK = "\nException raised from "
ERROR_FIELDS = ("iteration", "has_error", "error")


@contextmanager
def captured_output() -> Iterator[tuple[StringIO, StringIO]]:
    """Takes in what this process prints meanwhile: (stdout, stderr). Sees Python's streams, not C++'s."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        yield out, err


def verify_ddp_error_logged(model_DDP: Any, err_substr: str) -> None:
    """AssertionError unless that DDP module has logged an error with `err_substr` in it, the C++ stack aside.

    Reads `_get_ddp_logging_data()` of the module: fields iteration, has_error and error.
    """
    logged = model_DDP._get_ddp_logging_data()
    absent = [name for name in ERROR_FIELDS if name not in logged]
    if absent:
        raise AssertionError(f"DDP logged no error: no {', '.join(absent)} in its logging data")
    wanted = err_substr.partition(CPP_STACK_MARK)[0]
    if wanted not in logged["error"]:
        raise AssertionError(f"DDP logged another error: {wanted!r} is not in {logged['error']!r}")
