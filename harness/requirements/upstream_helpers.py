"""Two helpers of PyTorch's own tests: `captured_output` and `verify_ddp_error_logged`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

# The text of a C++ error after this mark is its stack.
CPP_STACK_MARK = "\nException raised from "
ERROR_FIELDS = ("iteration", "has_error", "error")


@contextmanager
def captured_output() -> Iterator[tuple[StringIO, StringIO]]:
    """Captures what Python prints to (stdout, stderr) inside the block, but not the output of C++ code."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        yield out, err


def verify_ddp_error_logged(model_DDP: Any, err_substr: str) -> None:
    """Raises AssertionError unless the DDP module has logged an error that contains `err_substr`.

    A C++ stack at the end of `err_substr` is ignored. Reads the fields iteration, has_error and error of the
    module's `_get_ddp_logging_data()`.
    """
    logged = model_DDP._get_ddp_logging_data()
    absent = [name for name in ERROR_FIELDS if name not in logged]
    if absent:
        raise AssertionError(f"DDP logged no error: no {', '.join(absent)} in its logging data")
    wanted = err_substr.partition(CPP_STACK_MARK)[0]
    if wanted not in logged["error"]:
        raise AssertionError(f"DDP logged another error: {wanted!r} is not in {logged['error']!r}")
