"""Helpers of PyTorch's own tests that are no decorators: `captured_output`, `verify_ddp_error_logged`, ..."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

from harness.requirements.probes import probe
from harness.seeding import base_seed, seed_all

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


def sm_is_or_higher_than(device: Any, major: int, minor: int) -> bool:
    """Whether a CUDA device has this compute capability or a higher one.

    `device` is a torch.device. False on ROCm, whose numbers mean something else; True on other devices.
    """
    import torch

    if device.type != "cuda":
        return True
    return not probe().rocm and torch.cuda.get_device_capability(device) >= (major, minor)


def init_multigpu_helper(world_size: int, backend: str) -> dict[int, list[int]]:
    """Indices of accelerators by rank: one each; none where ranks are more. `backend` is unused."""
    count = probe().accelerator()[1]
    return {rank: [rank] if world_size <= count else [] for rank in range(world_size)}


def set_rng_seed(seed: int | None = None) -> None:
    """Seeds the generators of `random`, numpy and torch: with the seed of this run by default."""
    seed_all(base_seed() if seed is None else seed)


@contextmanager
def freeze_rng_state() -> Iterator[None]:
    """Puts torch's generators, those of the current CUDA device too, back to their state afterwards."""
    import torch

    with torch.random.fork_rng(devices=None if torch.cuda.is_initialized() else []):
        yield
