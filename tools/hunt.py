"""Hunts for bugs of torch by random programs, and says which are in the book and which are new.

    python tools/hunt.py --minutes 60
    python tools/hunt.py --minutes 600 --fuzzer compile --fuzzer aot --jobs 4 --dir ~/hunt --shard 1/3
    python tools/hunt.py --minutes 60 --python ~/torch-2.12/bin/python
    python tools/hunt.py --minutes 60 --fuzzer views --near
    python tools/hunt.py --report ~/bugs

Each fuzzer draws programs from fresh seeds; they run on ranks of the harness, so that a crash or a hang
costs one program. What fails is shrunk, run as a script in a fresh process under each interpreter, and
compared with the book (``suites/bugs``). Finds with one signature are one: the kind and the error's text
without numbers, and the structure of the shrunk program. The journal in ``--dir`` has each find as it is
made; a hunt with the same ``--dir`` goes on there. ``--report`` writes the book as a page, ``bugs.html`` and
``bugs.md``.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.errors import UsageError
from harness.fuzzing.hunted import FUZZERS, Hunted, hunted
from harness.fuzzing.signature import Failure
from harness.system.posix import die_with_parent
from suites.bugs import book
from tools.hunting import journal, page
from tools.hunting.journal import Batch, Find
from tools.hunting.summary import summary
from tools.hunting.worker import Task, releases_of, run

# A seed of a shard is its base, and this times its number beside the other shards'.
SEEDS = 1 << 20
# Characters of an error of the hunt's own that are told, and seconds before the next seed: what is wrong with
# the machine, a full disk say, is so for the next one, too.
TOLD = 500
BROKEN_S = 5.0
# Seconds after the end in which the programs that run may finish.
ENDING_S = 300.0

EXIT_CODES = """exit codes:
  0  nothing new was found
  1  something that is not in the book was found, and confirmed
  2  a wrong argument"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns one of the exit codes that ``--help`` lists."""
    options = _parser().parse_args(argv)
    try:
        if options.report is not None:
            for path in page.write(options.report, book.entries()):
                print(path)
            return 0
        return hunt(options)
    except UsageError as error:
        print(f"hunt: {error}", file=sys.stderr)
        return 2


def hunt(options: argparse.Namespace) -> int:
    """Runs the hunt, prints what it found, and returns the exit code."""
    if options.near:
        _check_near(options.fuzzers or FUZZERS)
    directory: Path = options.dir
    directory.mkdir(parents=True, exist_ok=True)
    until_s = time.time() + 60 * options.minutes
    pythons = releases_of([sys.executable, *options.pythons])
    seeds = _seeds(directory, options)
    print(f"hunting for {options.minutes:g} minutes in {directory}; torch {', '.join(pythons)}", flush=True)
    _run(options.jobs, until_s, directory, pythons, seeds, near=options.near)
    records = journal.read(directory)
    new = summary(records)
    print(*new.lines, sep="\n")
    for name, script in new.scripts.items():
        (directory / name).write_text(script, encoding="utf-8")
    return 1 if new.scripts else 0


def _check_near(fuzzers: Iterable[str]) -> None:
    """UsageError for a fuzzer that cannot change a program."""
    fixed = sorted({name for name in fuzzers if type(hunted(name)).changed is Hunted.changed})
    if fixed:
        raise UsageError(f"--near is not for {', '.join(fixed)}, which draw each program anew: name --fuzzer")


def _seeds(directory: Path, options: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Fuzzers in turns, each with its next seed that was not run; the first seed is noted for later."""
    shard, count = options.shard
    note = directory / "seed"
    if not note.exists():
        seed = random.SystemRandom().randrange(SEEDS) if options.seed is None else options.seed
        note.write_text(str(seed), encoding="utf-8")
    first = int(note.read_text(encoding="utf-8")) * SEEDS + shard - 1
    done = {(each.fuzzer, each.seed) for each in journal.read(directory) if isinstance(each, Batch)}
    for number in itertools.count():
        for fuzzer in dict.fromkeys(options.fuzzers or sorted(FUZZERS)):
            if (fuzzer, first + count * number) not in done:
                yield fuzzer, first + count * number


def _run(
    jobs: int,
    until_s: float,
    directory: Path,
    pythons: dict[str, str],
    seeds: Iterator[tuple[str, int]],
    *,
    near: bool,
) -> None:
    """Runs seeds, ``jobs`` side by side, until the time is over; a worker that dies costs its seed."""
    while time.time() < until_s:
        with pool_of(jobs) as pool:
            running: dict[Future[Batch], tuple[str, int]] = {}
            try:
                while time.time() < until_s:
                    while len(running) < jobs:
                        fuzzer, seed = next(seeds)
                        task = Task(fuzzer, seed, until_s, directory, pythons, _seen(directory), near)
                        running[pool.submit(run, task)] = (fuzzer, seed)
                    for future in wait(running, ENDING_S, FIRST_COMPLETED).done:
                        _ended(future, *running[future], directory)
                        del running[future]
                for future in wait(running, ENDING_S).done:
                    _ended(future, *running[future], directory)
                    del running[future]
                return
            except BrokenProcessPool:
                seeds_lost = ", ".join(f"{fuzzer} {seed}" for fuzzer, seed in sorted(running.values()))
                print(f"a process of the hunt died, with one of these seeds: {seeds_lost}", flush=True)


def pool_of(jobs: int) -> ProcessPoolExecutor:
    """New processes that run seeds, and end with this one, however it ends."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, context, initializer=die_with_parent, initargs=(signal.SIGKILL,))


def _ended(future: Future[Batch], fuzzer: str, seed: int, directory: Path) -> None:
    """Shows a seed that has ended. What broke in it costs this seed, but for the end of its process."""
    error = future.exception()
    if isinstance(error, BrokenProcessPool):
        raise error
    if error is None:
        _show(future.result(), directory)
    else:
        print(f"{fuzzer} {seed} broke: {type(error).__name__}: {str(error)[-TOLD:]}", flush=True)
        time.sleep(BROKEN_S)


def _seen(directory: Path) -> Counter[Failure]:
    return Counter(each.signature.failure for each in journal.read(directory) if isinstance(each, Find))


def _show(batch: Batch, directory: Path) -> None:
    found = [r for r in journal.read(directory) if isinstance(r, Find)]
    new = {str(f.signature) for f in found if f.entry is None and f.confirmed}
    print(
        f"{time.strftime('%H:%M')} {batch.fuzzer} {batch.seed}: {batch.ran} programs, {batch.failed} failed;"
        f" in all {len(found)} finds, {sum(f.entry is not None for f in found)} known, {len(new)} new",
        flush=True,
    )


def _parser() -> argparse.ArgumentParser:
    description, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="hunt.py",
        description=description,
        epilog=f"{details}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--minutes", metavar="N", type=float, default=10.0, help="end after so long (default: 10)")
    add("--fuzzer", metavar="NAME", dest="fuzzers", action="append", choices=sorted(FUZZERS),
        help=f"one of {', '.join(sorted(FUZZERS))}; repeatable (default: all, in turns)")  # fmt: skip
    add("--jobs", metavar="N", type=_jobs, default=os.cpu_count() or 1,
        help="programs side by side (default and `auto`: one for each processor)")  # fmt: skip
    add("--shard", metavar="I/N", type=_shard, default=(1, 1), help="the seeds of shard I of N (from 1)")
    add("--seed", metavar="S", type=int, help="what the seeds begin with (default: another one each time)")
    add("--near", action="store_true",
        help="most programs are small changes of those that failed; for the fuzzer `views`")  # fmt: skip
    add("--python", metavar="PATH", dest="pythons", action="append", default=[],
        help="an interpreter with another torch, in which finds are tried too; repeatable")  # fmt: skip
    add("--dir", metavar="DIR", type=Path, default=Path("hunt"),
        help="where the journal and scripts go, and where a hunt goes on (default: hunt)")  # fmt: skip
    add("--report", metavar="DIR", type=Path, help="write the book as a page to DIR, and hunt for nothing")
    return parser


def _jobs(text: str) -> int:
    number = os.cpu_count() or 1 if text == "auto" else int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _shard(text: str) -> tuple[int, int]:
    index, slash, count = text.partition("/")
    if not slash or not index.isdecimal() or not count.isdecimal() or not 1 <= int(index) <= int(count):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N")
    return int(index), int(count)


if __name__ == "__main__":
    sys.exit(main())
