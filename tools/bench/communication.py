"""Measures what it costs to record a rank's communication: each call, at world size 1, with and without.

    python tools/bench/communication.py                 half a minute on two cores
    python tools/bench/communication.py --only all_reduce --rounds 21

Two processes take turns, one of which records its calls as a rank does. The numbers are microseconds of
processor time a call, the medians of all rounds. Compare differences, not the numbers of two runs.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.simple_table import Table, as_rst

OPERATIONS = (
    *("all_reduce", "all_reduce, asynchronous", "all_gather", "all_gather_into_tensor"),
    *("reduce_scatter_tensor", "all_to_all_single", "broadcast", "barrier"),
)
ROUNDS, CALLS = 11, 1000
MODES = ("without", "with")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool, or one of its two processes; returns 0."""
    options = _parser().parse_args(argv)
    if options.process is not None:
        serve(records=options.process == "with", calls=options.calls)
        return 0
    print(as_rst(table(measured(options.only or OPERATIONS, options.rounds, options.calls))))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="communication.py", description=(__doc__ or "").partition("\n\n")[0]
    )
    add = parser.add_argument
    add("--only", action="append", choices=OPERATIONS, help="measure only this; repeatable")
    add("--rounds", type=int, default=ROUNDS, help=f"turns of each process (default: {ROUNDS})")
    add("--calls", type=int, default=CALLS, help=f"calls a turn (default: {CALLS})")
    add("--process", choices=MODES, help=argparse.SUPPRESS)
    return parser


def measured(operations: Sequence[str], rounds: int, calls: int) -> dict[str, dict[str, list[float]]]:
    """Microseconds a call by operation and by process, a number for each round."""
    found: dict[str, dict[str, list[float]]] = {name: {mode: [] for mode in MODES} for name in operations}
    with ExitStack() as stack:
        processes = {mode: stack.enter_context(_started(mode, calls)) for mode in MODES}
        for name in operations:
            for _ in range(rounds):
                for mode, process in processes.items():
                    found[name][mode].append(_asked(process, name))
        for process in processes.values():
            process.communicate()
    return found


def _started(mode: str, calls: int) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--process", mode, "--calls", str(calls)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _asked(process: subprocess.Popen[str], operation: str) -> float:
    assert process.stdin is not None and process.stdout is not None
    print(operation, file=process.stdin, flush=True)
    return float(process.stdout.readline())


def table(found: Mapping[str, Mapping[str, Sequence[float]]]) -> Table:
    """The medians as a table: without, with, and the median of the differences within a round."""
    rows = []
    for name, by_mode in found.items():
        without, recorded = (by_mode[mode] for mode in MODES)
        more = statistics.median(b - a for a, b in zip(without, recorded, strict=True))
        cells = (statistics.median(without), statistics.median(recorded))
        rows.append((name, *(f"{each:.1f} us" for each in cells), f"{more:+.1f} us"))
    return Table(("call", "without", "recorded", "more"), tuple(rows))


# -- in one of the two processes


def serve(*, records: bool, calls: int) -> None:
    """Measures the operation of each line of the standard input, and prints microseconds a call."""
    import mmap
    import time
    import warnings

    import torch
    import torch.distributed as dist

    from harness.communication import taps
    from harness.communication.call_log import LOG_BYTES, CallLog

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if records:
        taps.install(CallLog(mmap.mmap(-1, LOG_BYTES)))
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    bodies = _bodies()
    for line in sys.stdin:
        body = bodies[line.strip()]
        body()
        started = time.process_time()
        for _ in range(calls):
            body()
        print((time.process_time() - started) / calls * 1e6, flush=True)


def _bodies() -> dict[str, Callable[[], Any]]:
    import torch
    import torch.distributed as dist

    given, filled = torch.ones(4), torch.zeros(4)

    def asynchronous() -> None:
        work = dist.all_reduce(given, async_op=True)
        assert work is not None
        work.wait()

    made = (
        *(lambda: dist.all_reduce(given), asynchronous, lambda: dist.all_gather([filled], given)),
        lambda: dist.all_gather_into_tensor(filled, given),
        lambda: dist.reduce_scatter_tensor(filled, given),
        *(lambda: dist.all_to_all_single(filled, given), lambda: dist.broadcast(given, 0), dist.barrier),
    )
    return dict(zip(OPERATIONS, made, strict=True))


if __name__ == "__main__":
    sys.exit(main())
