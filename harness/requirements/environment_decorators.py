"""Decorators that run a test under other environment variables and restore the old ones afterwards."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from harness.requirements import argument_checks

Test = TypeVar("Test", bound=Callable[..., Any])

DEBUG_VARIABLE = "TORCH_DISTRIBUTED_DEBUG"
# NCCL cannot both block in wait() and handle errors asynchronously.
NCCL_BLOCKING_WAIT: Mapping[str, str | None] = {
    "TORCH_NCCL_BLOCKING_WAIT": "1",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": None,
}


def with_dist_debug_levels(levels: Iterable[str]) -> Callable[[Test], Test]:
    """Runs the test once for each of these levels (OFF, INFO, DETAIL), in the given order.

    After each run there is a barrier, if there is a default process group. The first failure ends the test.
    `TORCH_DISTRIBUTED_DEBUG` and torch's debug level are restored however the test ends. Returns what the
    last run returned. ValueError for an unknown level, or for no level.
    """
    wanted = argument_checks.check_debug_levels(levels)

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def at_each_level(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            result = None
            with _debug_level_kept():
                for level in wanted:
                    result = _run_at_level(level, functools.partial(test, *args, **kwargs))
            return result

        return cast(Test, at_each_level)

    return decorate


def with_nccl_blocking_wait(test: Test) -> Test:
    """Runs the test with `TORCH_NCCL_BLOCKING_WAIT=1` and without `TORCH_NCCL_ASYNC_ERROR_HANDLING`."""

    @functools.wraps(test)
    def waiting(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with variables(NCCL_BLOCKING_WAIT):
            return test(*args, **kwargs)

    return cast(Test, waiting)


@contextmanager
def variables(values: Mapping[str, str | None]) -> Iterator[None]:
    """Sets these environment variables inside the block (None unsets one) and restores the old values."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _debug_level_kept() -> Iterator[None]:
    import torch.distributed as dist

    before = dist.get_debug_level()
    try:
        yield
    finally:
        dist.set_debug_level(before)


def _run_at_level(level: str, run: Callable[[], Any]) -> Any:
    __tracebackhide__ = True
    import torch.distributed as dist

    with variables({DEBUG_VARIABLE: level}):
        dist.set_debug_level_from_env()  # torch reads the variable at import only (pytorch/pytorch#73166)
        result = run()
        if dist.is_initialized():
            dist.barrier()
    return result
