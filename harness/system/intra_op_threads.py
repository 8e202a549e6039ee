"""How many intra-op threads a process gets: a rank, a worker, and a server that forks, which stays at one.

The user's ``OMP_NUM_THREADS`` wins everywhere; without it a rank gets its share of the processors.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from harness.system import processors

VARIABLE = "OMP_NUM_THREADS"
# Libraries that would start a pool of threads while they are imported are kept at one thread in a server, or
# it could not be forked safely. Ranks and workers get the values that the user had.
SINGLE_THREADED: Mapping[str, str] = {
    "OPENBLAS_NUM_THREADS": "1",
    "GOTO_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def asked_for(environ: Mapping[str, str]) -> int | None:
    """The number that ``OMP_NUM_THREADS`` asks for (the first of a list by nesting level), else None."""
    text = environ.get(VARIABLE, "").split(",")[0].strip()
    return int(text) if text.isdigit() and int(text) > 0 else None


def of_rank(environ: Mapping[str, str], world_size: int) -> int:
    """The threads of each of ``world_size`` ranks: what the user asks for, else a share of the processors."""
    return asked_for(environ) or processors.share(world_size)


def set_in_torch(count: int | None) -> None:
    """Sets the number for this process where torch is loaded; None leaves it alone.

    A process that was forked has to call this even where the number is right already: torch replaces the pool
    of threads that its parent had at the next use, which is safe only while there is one thread.
    """
    torch = sys.modules.get("torch")
    if torch is not None and count is not None:
        torch.set_num_threads(count)
