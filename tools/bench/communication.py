"""Measures the price of the communication checker: a call, at world size 1, and a run of tests.

    python tools/bench/communication.py                 half a minute on two cores
    python tools/bench/communication.py --only all_reduce --rounds 9
    python tools/bench/communication.py --tests c10d.test_work_handles

Without recording, by a recorder that only counts calls (``tools/bench/recorders.py``), and by the checker, in
turns. A call is in microseconds of processor time: the least of many turns in one process, since load only
adds, and the median of new processes. All three ways have their turns in the same process, since two that do
the same differ by microseconds in where their memory is. Compare differences, not the numbers of two runs.

A run of tests is in seconds of all processes of ``run_tests.py --jobs 1``, by the recorder that counts and by
the checker. Each round runs both, prints what they took, and compares them; what counts is the median of the
rounds. The table says how far chance may have moved it (in 19 of 20 measurements no further), and after how
many rounds that is a percent: then 2 % more is told from nothing. Tests are to take some seconds a run. Where
one fails the measurement ends, with what the run printed last.
"""

from __future__ import annotations

import argparse
import math
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.bench.recorders import CHECKER, COUNTING, RECORDERS, WITHOUT, Replacements, counting, environment
from tools.simple_table import Table, as_rst

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = (
    *("all_reduce", "all_reduce, asynchronous", "all_gather", "all_gather_into_tensor"),
    *("reduce_scatter_tensor", "all_to_all_single", "broadcast", "barrier"),
)
ROUNDS, ROUNDS_OF_TESTS, CALLS = 7, 15, 200
# Of what tests print that fail, so many lines are shown: what failed stands at the end.
LINES_OF_A_FAILURE = 40
# How often each recorder has its turn, for each operation, in a process.
TURNS = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool, or one of its processes; returns 0."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.process:
        serve(calls=options.calls)
        return 0
    if options.tests:
        if options.rounds == 1:
            parser.error("one round of tests does not tell by how much rounds differ")
        print(as_rst(tests_table(tests_measured(options.tests, options.rounds or ROUNDS_OF_TESTS))))
        return 0
    print(as_rst(table(measured(options.only or OPERATIONS, options.rounds or ROUNDS, options.calls))))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="communication.py", description=(__doc__ or "").partition("\n\n")[0]
    )
    add = parser.add_argument
    add("--only", action="append", choices=OPERATIONS, help="measure only this; repeatable")
    often = f"how often all is started anew (default: {ROUNDS}, and {ROUNDS_OF_TESTS} for tests)"
    add("--rounds", type=int, help=often)
    add("--calls", type=int, default=CALLS, help=f"calls a turn (default: {CALLS})")
    add("--tests", action="append", metavar="NAME", help="measure a run of these tests; repeatable")
    add("--process", action="store_true", help=argparse.SUPPRESS)
    return parser


def measured(operations: Sequence[str], rounds: int, calls: int) -> dict[str, dict[str, list[float]]]:
    """Microseconds a call by operation and by process, a number for each round."""
    found: dict[str, dict[str, list[float]]] = {name: {mode: [] for mode in RECORDERS} for name in operations}
    for _ in range(rounds):
        with _started(calls) as process:
            for name in operations:
                for mode, microseconds in zip(RECORDERS, _asked(process, name), strict=True):
                    found[name][mode].append(microseconds)
            process.communicate()
    return found


def _started(calls: int) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--process", "--calls", str(calls)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _asked(process: subprocess.Popen[str], operation: str) -> list[float]:
    """Microseconds a call of the operation, by recorder."""
    assert process.stdin is not None and process.stdout is not None
    print(operation, file=process.stdin, flush=True)
    return [*map(float, process.stdout.readline().split())]


def table(found: Mapping[str, Mapping[str, Sequence[float]]]) -> Table:
    """The medians as a table, and the median of the differences within a round."""
    rows = []
    for name, by_mode in found.items():
        more = statistics.median(b - a for a, b in zip(by_mode[COUNTING], by_mode[CHECKER], strict=True))
        cells = (statistics.median(by_mode[mode]) for mode in RECORDERS)
        rows.append((name, *(f"{each:.1f} us" for each in cells), f"{more:+.1f} us"))
    return Table(("call", *RECORDERS, "beyond counting"), tuple(rows))


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds that a run of tests took: of all its processes' processor time, and by the clock."""

    processor: float
    clock: float


def tests_measured(names: Sequence[str], rounds: int) -> list[tuple[Spent, Spent]]:
    """What a run of these tests took in each round by the recorder that counts, and by the checker."""
    found = []
    for turn in range(rounds):  # the other one first in every other round: the machine may become slower
        order = (COUNTING, CHECKER)[:: 1 if turn % 2 else -1]
        spent = {recorder: _run(names, recorder) for recorder in order}
        found.append((spent[COUNTING], spent[CHECKER]))
        told = (f"{recorder} {spent[recorder].processor:.2f} s" for recorder in (COUNTING, CHECKER))
        print(f"round {turn + 1}: {', '.join(told)} of processor time", file=sys.stderr, flush=True)
    return found


def _run(names: Sequence[str], recorder: str) -> Spent:
    with tempfile.TemporaryDirectory() as directory:
        environ = {**os.environ, **environment(recorder, Path(directory), ROOT)}
        state = ("--report-dir", f"{directory}/report", "--jobs", "1", "--no-config", "-q")
        command = [sys.executable, str(ROOT / "run_tests.py"), *names, *state]
        began = time.monotonic()
        with Path(directory, "printed").open("w+") as printed:
            process = subprocess.Popen(command, env=environ, cwd=ROOT, stdout=printed, stderr=printed)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            clock = time.monotonic() - began
            printed.seek(0)
            end = "".join(printed.readlines()[-LINES_OF_A_FAILURE:])
    if process.returncode:
        why = f"the tests ended with exit code {process.returncode} by the recorder {recorder!r}"
        raise SystemExit(f"{end}{why}: no price of tests that fail")
    return Spent(used.ru_utime + used.ru_stime, clock)


def tests_table(found: Sequence[tuple[Spent, Spent]]) -> Table:
    """Medians of what runs took and of the rounds' percentages, and how far chance may have moved these."""
    rows = []
    processor = [(counted.processor, checked.processor) for counted, checked in found]
    clock = [(counted.clock, checked.clock) for counted, checked in found]
    for what, pairs in (("processor time", processor), ("by the clock", clock)):
        more = [100 * (checked / counted - 1) for counted, checked in pairs]
        by_recorder = (f"{statistics.median(seconds):.2f} s" for seconds in zip(*pairs, strict=True))
        off = uncertainty(more)
        needed = max(math.ceil(len(more) * off**2), 2)
        rows.append((what, *by_recorder, f"{statistics.median(more):+.1f} %", f"{off:.1f} %", str(needed)))
    columns = ("measured", COUNTING, CHECKER, "beyond counting", "give or take", "rounds for 1 %")
    return Table(columns, tuple(rows))


def uncertainty(numbers: Sequence[float]) -> float:
    """How far the median of at least two numbers may be from that of many more, in 19 of 20 cases.

    That is two standard errors of a median, which are 1.25 times those of a mean; the standard deviation is
    taken from the median distance, 1.48 times that, since single runs may be far off on a busy machine.
    """
    median = statistics.median(numbers)
    deviation = 1.48 * statistics.median(abs(number - median) for number in numbers)
    return 2 * 1.25 * deviation / math.sqrt(len(numbers))


# -- in one of the processes


def serve(*, calls: int) -> None:
    """Measures the operation of each line of the standard input; prints microseconds a call, by recorder."""
    import warnings

    import torch
    import torch.distributed as dist

    from harness.communication.call_log import LOG_BYTES, CallLog
    from harness.communication.taps import taps

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    checks = Replacements(lambda: taps.install(CallLog(mmap.mmap(-1, LOG_BYTES))))
    counts = Replacements(counting)
    ways = {WITHOUT: Replacements(lambda: None), COUNTING: counts, CHECKER: checks}
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    bodies = _bodies()
    for line in sys.stdin:
        body = bodies[line.strip()]
        turns = [[_turn(body, ways[name], calls) for name in RECORDERS] for _ in range(TURNS)]
        print(*map(min, zip(*turns, strict=True)), flush=True)


def _turn(body: Callable[[], Any], way: Replacements, calls: int) -> float:
    """Microseconds of processor time a call, with the recorder that ``way`` puts in place."""
    with way.in_place():
        for _ in range(max(calls // 2, 1)):  # until the interpreter has settled on what it finds now
            body()
        started = time.process_time()
        for _ in range(calls):
            body()
        return (time.process_time() - started) / calls * 1e6


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
