"""Draws random tests whose ranks go wrong, runs them, and compares their verdicts with an oracle's.

    python tools/fuzz_verdicts.py --cases 2000
    python tools/fuzz_verdicts.py --cases 200 --only threads --only sigkill
    python tools/fuzz_verdicts.py --seed 4711 --cases 1

A case is a function of its seed: the rank mode, how many ranks, what strikes which of them and when, and what
the others do meanwhile. The oracle (``tools/verdict_fuzzing/oracle.py``) says which verdict is right, which
rank has to be named as the cause and when the verdict is due, from ``docs/failures.rst`` alone; no process,
file, descriptor or thread may be left. What comes out wrong is run again by itself, with more time: if it is
wrong again it counts, and else it is listed as seen once.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.verdict_fuzzing.batch import Batch, batches
from tools.verdict_fuzzing.case import FuzzCase, draw
from tools.verdict_fuzzing.observation import Observation
from tools.verdict_fuzzing.oracle import Expectation, expected, objections

# How much longer the limits of a case are when it is run again by itself.
MORE_PATIENCE = 2.0
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


@dataclass(frozen=True, slots=True)
class Result:
    """A case as it was judged, and again by itself, with more time, where it was wrong at first."""

    first: Judged
    again: Judged | None

    @property
    def wrong(self) -> bool:
        """Whether the case was wrong both times."""
        return self.again is not None and bool(self.again.wrong)


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
    results: list[Result] = []
    for result in run(cases, options.jobs, options.patience, only):
        results.append(result)
        if result.first.wrong:
            _show(result, only)
        if sys.stdout.isatty() or len(results) % 50 == 0:
            wrong = sum(each.wrong for each in results)
            print(f"{len(results)} of {len(cases)}, {wrong} wrong", flush=True)
    _sum_up(results)
    return 1 if any(each.wrong for each in results) else 0


def run(cases: Sequence[FuzzCase], jobs: int, patience: float, only: tuple[str, ...]) -> Iterator[Result]:
    """Runs cases in batches, ``jobs`` of them side by side, and yields the results as a batch ends."""
    with ThreadPoolExecutor(jobs) as pool:
        for future in as_completed(pool.submit(_results, each) for each in batches(cases, patience, only)):
            yield from future.result()


def _results(batch: Batch) -> list[Result]:
    """The cases of a batch, run and judged, and those that were wrong by themselves once more."""
    return [Result(first, _again(batch, first) if first.wrong else None) for first in judged_of(batch)]


def _again(batch: Batch, first: Judged) -> Judged:
    alone = replace(batch, cases=(first.case,), patience=MORE_PATIENCE * batch.patience)
    return next(judged_of(alone))


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


def _show(result: Result, only: Iterable[str]) -> None:
    """Prints a wrong case: how to run it alone, what was drawn, what was wanted, and what came."""
    words = "".join(f" --only {word}" for word in only)
    case, shown = result.first.case, result.again if result.wrong and result.again else result.first
    print(f"{'WRONG' if result.wrong else 'wrong once'}: --seed {case.seed} --cases 1{words}")
    print(f"    drawn: {case}\n    wanted: {shown.wanted}")
    for line in shown.wrong:
        print(f"    {line}")
    for line in shown.came.text.splitlines()[:SHOWN_LINES]:
        print(f"        | {line[:200]}")
    sys.stdout.flush()


def _sum_up(results: Sequence[Result]) -> None:
    """Prints how many cases of each mode were run, how late their verdicts were, and how many were wrong."""
    for mode, count in sorted(Counter(each.first.case.mode for each in results).items()):
        late = sorted(
            s for each in results if each.first.case.mode == mode and (s := each.first.late_s) is not None
        )
        times = (
            f"late by {late[len(late) // 2]:.2f} s (median), {late[-1]:.2f} s (most)" if late else "no times"
        )
        print(f"{mode}: {count} cases, {times}")
    wrong = [each for each in results if each.wrong]
    once = sum(bool(each.first.wrong) for each in results) - len(wrong)
    print(f"{len(results)} cases: {len(wrong)} wrong, {once} wrong once and right by themselves")
    for each in wrong:
        print(f"  wrong: {each.first.case.seed}: {each.first.case}")


if __name__ == "__main__":
    sys.exit(main())
