"""Runs cases whose ranks are processes that somebody else started: forks them, as torchrun would start them.

Each case has a store of its own, in a process of its own, so that a case that loses ranks spoils no other. A
rank runs the tests of its case by unittest, writes what came of them to a file, and leaves.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

from tools.verdict_fuzzing import telling
from tools.verdict_fuzzing.case import FuzzCase
from tools.verdict_fuzzing.limits import limits_of
from tools.verdict_fuzzing.model import comes_to_meeting, dies, hangs, stuck
from tools.verdict_fuzzing.observation import NO_VERDICT, Observation, verdict_of
from tools.verdict_fuzzing.oracle import expected
from tools.verdict_fuzzing.subject import AFTER, BEFORE, STRUCK, name_of, patience

# Seconds, before patience, for ranks to run the tests around the one that is struck, and to leave.
AROUND_S = 20.0


def run(module: str, out: str, cases: Sequence[FuzzCase]) -> None:
    """Runs the cases one after another, and writes what came of them as the driver does."""
    import torch.distributed  # noqa: F401 - once here, and not in every rank

    for case in cases:
        telling.begin(out, case.seed)
        directory = tempfile.mkdtemp(prefix="fuzz-external-")  # an object would clean up in each rank, too
        try:
            _launch(module, directory, case)
            seen = _collected(case, directory)
        finally:
            shutil.rmtree(directory)
        telling.end(out, case.seed, seen)


def _launch(module: str, directory: str, case: FuzzCase) -> None:
    """Starts the store and the ranks, and waits until these have ended."""
    read, write = os.pipe()
    store = os.fork()
    if store == 0:
        _host_store(write)
    port = os.read(read, 16).decode()
    os.close(read)
    os.close(write)
    ranks = []
    for rank in range(case.world_size):
        pid = os.fork()
        if pid == 0:
            _rank(module, directory, case, rank, port)
        ranks.append(pid)
    _wait(case, ranks)
    os.kill(store, signal.SIGKILL)
    os.waitpid(store, 0)


def _host_store(write: int) -> None:
    from torch.distributed import TCPStore

    patient = timedelta(hours=1)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=patient)
    os.write(write, str(store.port).encode())
    os.close(write)
    signal.pause()


def _rank(module: str, directory: str, case: FuzzCase, rank: int, port: str) -> NoReturn:
    """Runs the tests and ends, with the functions of atexit, in which a rank waits for the others."""
    try:
        _play_rank(module, directory, case, rank, port)
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001 - must never reach the driver's frames
        traceback.print_exc()
    finally:
        os._exit(0)


def _play_rank(module: str, directory: str, case: FuzzCase, rank: int, port: str) -> None:
    os.environ.update(
        HARNESS_LAUNCHER="external",
        RANK=str(rank),
        WORLD_SIZE=str(case.world_size),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=port,
        TORCHELASTIC_USE_AGENT_STORE="True",
        HARNESS_EXIT_GRACE=f"{2 * patience():g}",
    )
    subject = getattr(importlib.import_module(module), name_of(case.seed))
    part = Path(directory, f"{rank}.part")
    steps = [BEFORE, STRUCK, AFTER] if case.prelude else [STRUCK, AFTER]
    for step in steps:
        started = time.monotonic()
        verdict, text = verdict_of(subject(step))
        seconds = time.monotonic() - started
        seen = Observation(verdict, text, seconds=seconds)
        part.write_text(seen.dumps())
        os.rename(part, Path(directory, f"{rank}.{step}"))


def _wait(case: FuzzCase, ranks: Sequence[int]) -> None:
    """Waits until the ranks have ended; kills those that nobody can end, and any after a long time."""
    latest = expected(case, patience()).latest_s + AROUND_S * patience()
    limits = limits_of(case, patience())
    # Nobody ends a rank that is stopped, or that hangs with the GIL, so that its own listener cannot run.
    hopeless_after = limits.deadline_s + AROUND_S if hangs(case) and not comes_to_meeting(case) else latest
    started = time.monotonic()
    alive = dict(enumerate(ranks))
    while alive:
        for rank, pid in [*alive.items()]:
            if os.waitpid(pid, os.WNOHANG)[0]:
                del alive[rank]
        seconds = time.monotonic() - started
        doomed = [rank for rank in alive if rank in case.strikers and hangs(case)]
        others_done = len(doomed) == len(alive)
        if alive and (seconds > latest or (others_done and seconds > min(hopeless_after, latest))):
            for pid in alive.values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _collected(case: FuzzCase, directory: str) -> Observation:
    """What the ranks that could tell came to; a line in ``left`` where two came to different verdicts."""
    by_rank = {}
    for rank in range(case.world_size):
        with contextlib.suppress(FileNotFoundError):
            by_rank[rank] = Observation.loads(Path(directory, f"{rank}.{STRUCK}").read_text())
    silent = set(range(case.world_size)) - by_rank.keys()
    may_be_silent = set(stuck(case)) | set(case.strikers if dies(case) or hangs(case) else ())
    left = [f"rank {rank} came to no verdict" for rank in sorted(silent - may_be_silent)]
    verdicts = {seen.verdict for seen in by_rank.values()}
    if len(verdicts) > 1:
        left.append(f"verdicts differ: { {rank: seen.verdict for rank, seen in by_rank.items()} }")
    if not by_rank:
        return Observation(left=tuple(left))
    first = by_rank[min(by_rank)]
    survivors = [rank for rank in by_rank if rank not in may_be_silent] or [*by_rank]
    return Observation(
        first.verdict,
        first.text,
        _all_say(directory, BEFORE, range(case.world_size)),
        _all_say(directory, AFTER, survivors),
        left=tuple(left),
        seconds=max(seen.seconds or 0.0 for seen in by_rank.values()),
    )


def _all_say(directory: str, step: str, ranks: Sequence[int]) -> str:
    """The verdict of a test that all those ranks came to; several where they differ."""
    found = set()
    for rank in ranks:
        with contextlib.suppress(FileNotFoundError):
            found.add(Observation.loads(Path(directory, f"{rank}.{step}").read_text()).verdict)
    return " and ".join(sorted(found)) or NO_VERDICT
