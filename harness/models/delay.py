"""``delay``: keeps the current device busy for some milliseconds.

A test delays one stream or rank to find out whether another one waits for its result.
"""

from __future__ import annotations

import functools
import statistics
import time

import torch

from harness.requirements import probe

# One measurement: long beside the launch of a kernel, and over in some milliseconds.
_CYCLES = 1_000_000
_MEASUREMENTS = 7


@functools.cache
def get_cycles_per_ms() -> float:
    """The cycles of ``torch.cuda._sleep`` in a millisecond, measured once on the current CUDA device."""
    return statistics.median(_CYCLES / _measured_ms() for _ in range(_MEASUREMENTS))


def _measured_ms() -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    torch.cuda._sleep(_CYCLES)
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def delay(ms: float) -> None:
    """Keeps the current CUDA stream busy for ``ms`` milliseconds; on other devices the caller sleeps."""
    if ms <= 0:
        return
    if probe().accelerator()[0] == "cuda":
        torch.cuda._sleep(int(ms * get_cycles_per_ms()))
    else:
        time.sleep(ms / 1000)
