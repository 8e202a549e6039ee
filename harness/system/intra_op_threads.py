"""Decides the intra-op thread count (``OMP_NUM_THREADS``) of ranks, and keeps forking servers at one thread.

The user's ``OMP_NUM_THREADS`` takes precedence everywhere; without it a rank gets its share of the
processors.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from harness.system import processors

VARIABLE = "OMP_NUM_THREADS"
# The largest number that torch and OpenMP can be told, a C int.
_MOST = 2**31 - 1
# Libraries that start a thread pool when they are imported are limited to one thread in a server, which
# could not be forked safely otherwise. Ranks and workers get the user's values.
SINGLE_THREADED: Mapping[str, str] = {
    "OPENBLAS_NUM_THREADS": "1",
    "GOTO_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def asked_for(environ: Mapping[str, str]) -> int | None:
    """The number that ``OMP_NUM_THREADS`` asks for (the first of a list by nesting level), else None.

    Like OpenMP, it ignores what is no number of threads.
    """
    text = environ.get(VARIABLE, "").split(",")[0].strip()
    return int(text) if text.isdecimal() and 0 < int(text) <= _MOST else None


def of_rank(environ: Mapping[str, str], world_size: int) -> int:
    """The thread count of each of ``world_size`` ranks: the user's, else an equal share of the processors."""
    return asked_for(environ) or processors.share(world_size)


def set_in_torch(count: int | None) -> None:
    """Sets the thread count of this process where torch is loaded; None changes nothing.

    A forked process has to call this even if the count is right already: torch replaces the thread pool of
    its parent at the next use, which is safe only while the process has one thread (related:
    pytorch/pytorch#17199).
    """
    torch = sys.modules.get("torch")
    if torch is not None and count is not None:
        torch.set_num_threads(count)
