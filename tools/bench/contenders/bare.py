"""``Bare`` measures the least that ranks can cost: fork from a process with torch, run the body, exit."""

from __future__ import annotations

import gc
import os
import time
import traceback
from collections.abc import Callable
from typing import NoReturn

import torch.distributed  # noqa: F401 - imported before the fork, for all ranks

from tools.bench.bodies import BODIES
from tools.bench.contenders.base import Contender, spot
from tools.bench.kinds import MEMORY, TEST, Kind, value


class Bare(Contender):
    """Runs ranks without a harness: only their exit codes are read. This is the limit for all others."""

    kinds = (TEST.name, MEMORY.name)

    def __init__(self) -> None:
        gc.disable()
        gc.freeze()  # a collection in a rank would write to pages that it shares with this process

    def measure(self, kind: Kind, world_size: int) -> float:
        """Forks the ranks and waits for them; the rendezvous directory is created before the clock starts."""
        with spot(world_size) as file:
            body, rendezvous = BODIES[kind.method], str(file.with_name("rendezvous"))
            started = time.monotonic()
            pids = [_fork(body, rank, world_size, rendezvous) for rank in range(world_size)]
            codes = [os.waitpid(pid, 0)[1] for pid in pids]
            ended = time.monotonic()
            written = file.read_text() if file.exists() else ""
        return value(kind, started, ended, written, passed=not any(codes))


def _fork(body: Callable[[int, int, str], None], rank: int, world_size: int, rendezvous: str) -> int:
    pid = os.fork()
    if pid == 0:
        _run(body, rank, world_size, rendezvous)
    return pid


def _run(body: Callable[[int, int, str], None], rank: int, world_size: int, rendezvous: str) -> NoReturn:
    code = 1
    try:
        body(rank, world_size, rendezvous)
        code = 0
    except BaseException:  # noqa: BLE001 - nothing may unwind into the frames that were forked
        traceback.print_exc()
    finally:
        os._exit(code)
