"""Draws random tests whose ranks go wrong, runs them, and compares their verdicts with an oracle's.

    python tools/fuzz_verdicts.py --cases 2000
    python tools/fuzz_verdicts.py --cases 200 --only threads --only sigkill
    python tools/fuzz_verdicts.py --seed 4711 --cases 1

A case is a function of its seed: the rank mode, how many ranks, what strikes which of them and when, and what
the others do meanwhile. The oracle (``tools/verdict_fuzzing/oracle.py``) says which verdict is right, which
rank has to be named as the cause and when the verdict is due, from the README alone; no process, file,
descriptor or thread may be left. What comes out wrong is run again by itself, with more time: if it is wrong
again it counts, and else it is listed as seen once.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.verdict_fuzzing.batch import Batch, batches
from tools.verdict_fuzzing.case import FuzzCase, draw
from tools.verdict_fuzzing.observation import Observation
from tools.verdict_fuzzing.oracle import Expectation, expected, objections

# How much longer the limits of a case are when it is run again by itself.
MORE_PATIENCE = 3.0
# Lines of a wrong verdict's text that are shown.
SHOWN_LINES = 12

EXIT_CODES = """exit codes:
  0  no verdict is wrong
  1  a verdict is wrong, or something is left over
  2  a wrong argument"""


@dataclass(frozen=True, slots=True)
class Judged:
    """A case, what was wanted of it, what came, and what is wrong with that: a line each."""

    case: FuzzCase
    wanted: Expectation
    came: Observation
    wrong: tuple[str, ...]

    @property
    def late_s(self) -> float | None:
        """How late the verdict was, in seconds; None where nobody knows."""
        return None if self.came.seconds is None else max(0.0, self.came.seconds - self.wanted.due_s)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns one of the exit codes that ``--help`` lists."""
    options = _parser().parse_args(argv)
    seed = random.SystemRandom().randrange(1 << 30) if options.seed is None else options.seed
    only = tuple(options.only)
    try:
        cases = [draw(seed + number, only) for number in range(options.cases)]
    except ValueError as error:
        print(f"fuzz_verdicts: {error}", file=sys.stderr)
        return 2
    print(f"{len(cases)} cases from seed {seed}", flush=True)
    if options.list:
        for case in cases:
            print(f"{case.seed}: {case}: {expected(case)}")
        return 0
    judged: list[Judged] = []
    once: list[Judged] = []
    again: list[Judged] = []
    for result in run(cases, options.jobs, options.patience, only):
        judged.append(result)
        if result.wrong:
            repeated = list(judged_of(Batch((result.case,), MORE_PATIENCE * options.patience, only)))
            wrong_again = [each for each in repeated if each.wrong]
            (again if wrong_again else once).append(result)
            _show(result, wrong_again[0] if wrong_again else None, only)
        if sys.stdout.isatty() or len(judged) % 50 == 0:
            print(f"{len(judged)} of {len(cases)}, {len(again)} wrong, {len(once)} once", flush=True)
    _sum_up(judged, once, again)
    return 1 if again else 0


def run(cases: Sequence[FuzzCase], jobs: int, patience: float, only: tuple[str, ...]) -> Iterator[Judged]:
    """Runs cases in batches, ``jobs`` of them side by side, and yields each as its batch ends."""
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(lambda b: list(judged_of(b)), each) for each in batches(cases, patience, only)]
        for future in as_completed(futures):
            yield from future.result()


def judged_of(batch: Batch) -> Iterator[Judged]:
    """The cases of a batch, run and judged."""
    for case, came in batch.run():
        wanted = expected(case, batch.patience)
        yield Judged(case, wanted, came, tuple(objections(case, wanted, came)))


def _parser() -> argparse.ArgumentParser:
    description, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="fuzz_verdicts.py",
        description=description,
        epilog=f"{details}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--cases", metavar="N", type=_positive, default=100, help="how many cases (default: 100)")
    add("--seed", metavar="S", type=int, help="the seed of the first, which the next ones count on from")
    add("--jobs", metavar="N", type=_positive, default=2 * (os.cpu_count() or 1),
        help="batches side by side (default: two for each processor, as they mostly wait)")  # fmt: skip
    add("--only", metavar="WORD", action="append", default=[],
        help="only cases with this fault, moment, mode, launcher, runner or peers; repeatable")  # fmt: skip
    add("--patience", metavar="FACTOR", type=float, default=1.0,
        help="multiplies deadlines and graces, for a machine that is busy")  # fmt: skip
    add("--list", action="store_true", help="print the cases and what must come of them, and run nothing")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _show(first: Judged, again: Judged | None, only: Iterable[str]) -> None:
    """Prints a wrong case: how to run it alone, what was drawn, what was wanted, and what came."""
    words = "".join(f" --only {word}" for word in only)
    print(f"{'WRONG' if again else 'wrong once'}: --seed {first.case.seed} --cases 1{words}")
    print(f"    drawn: {first.case}\n    wanted: {first.wanted}")
    for line in (again or first).wrong:
        print(f"    {line}")
    for line in (again or first).came.text.splitlines()[:SHOWN_LINES]:
        print(f"        | {line[:200]}")
    sys.stdout.flush()


def _sum_up(judged: Sequence[Judged], once: Sequence[Judged], again: Sequence[Judged]) -> None:
    """Prints how many cases of each mode were run, how late their verdicts were, and how many were wrong."""
    for mode, count in sorted(Counter(each.case.mode for each in judged).items()):
        late = sorted(each.late_s for each in judged if each.case.mode == mode and each.late_s is not None)
        seconds = (
            f"late by {late[len(late) // 2]:.2f} s (median), {late[-1]:.2f} s (most)" if late else "no times"
        )
        print(f"{mode}: {count} cases, {seconds}")
    print(f"{len(judged)} cases: {len(again)} wrong, {len(once)} wrong once and right by themselves")
    for each in again:
        print(f"  wrong: {each.case.seed}: {each.case}")


if __name__ == "__main__":
    sys.exit(main())
