"""Draws random programs of collectives and messages, runs them as they are and with one rank's call changed.

    python tools/fuzz_communication.py --cases 1000
    python tools/fuzz_communication.py --seed 4711 --cases 200 --only mutated --jobs 8
    python tools/fuzz_communication.py --replay 4711/3

A case is a function of its name, the seed of its batch and its number there. As it is, a program has to pass
on pooled ranks without a word of the communication checker. Then one rank drops, doubles or swaps a call or
gives it other arguments, on fresh ranks: that has to be proven a deadlock or else be reported, and be blamed
on this rank; or nothing may be said, where the change does no harm (``harness/fuzzing/prediction.py`` knows).
What comes out wrong is run again by itself: if it is wrong again it counts, and is written as a script.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.fuzzing.source import source_of
from tools.communication_fuzzing.case import BATCH, FuzzCase, drawn
from tools.communication_fuzzing.judge import Judgement, judged
from tools.communication_fuzzing.player import Observation, play

# How much longer a case may take when it is run again by itself.
MORE_PATIENCE = 2.0
KINDS = ("right", "mutated")

EXIT_CODES = """exit codes:
  0  nothing came out wrong
  1  something was missed, blamed on another rank, or said without a reason
  2  a wrong argument"""


@dataclass(frozen=True, slots=True)
class Result:
    """A case, what came of it, and what is thought of that; ``again`` where it was wrong at first."""

    case: FuzzCase
    came: Observation
    first: Judgement
    again: Judgement | None = None

    @property
    def judgement(self) -> Judgement:
        """What is thought of the case in the end."""
        return self.first if self.again is None else self.again

    @property
    def kind(self) -> str:
        """Right, or what is mutated and what that must come to."""
        case = self.case
        return "right" if case.mutation is None else f"{case.mutation.change.value}, {case.prediction.value}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns one of the exit codes that ``--help`` lists."""
    options = _parser().parse_args(argv)
    if options.replay is not None:
        return replay(options.replay, options.kinds or KINDS)
    seed = random.SystemRandom().randrange(1 << 30) if options.seed is None else options.seed
    print(f"{options.cases} programs from seed {seed}", flush=True)
    results: list[Result] = []
    for result in run(seed, options.cases, options.kinds or KINDS, options.jobs):
        results.append(result)
        if not result.first.good:
            _show(result, options.out)
        if len(results) % 500 == 0:
            print(f"{len(results)} run, {sum(not each.judgement.good for each in results)} wrong", flush=True)
    _sum_up(results)
    return 0 if all(each.judgement.good for each in results) else 1


def run(seed: int, count: int, kinds: Sequence[str], jobs: int) -> Iterator[Result]:
    """Runs ``count`` programs of each kind, ``jobs`` side by side, and yields the results as they come."""
    batches = [
        (seed + at // BATCH, kind, min(BATCH, count - at)) for kind in kinds for at in range(0, count, BATCH)
    ]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        for future in as_completed(pool.submit(results_of, *batch) for batch in batches):
            yield from future.result()


def results_of(seed: int, kind: str, count: int) -> list[Result]:
    """The first ``count`` cases of a seed, run and judged, and those that were wrong once more."""
    import torch.distributed  # noqa: F401 - once, and not in every rank

    cases = list(drawn(seed, mutate=kind == "mutated"))[:count]
    found = []
    for case, came in play(cases):
        result = Result(case, came, judged(case, came))
        if not result.first.good:
            ((_, second),) = play([case], MORE_PATIENCE)
            result = Result(case, second, result.first, judged(case, second))
        found.append(result)
    return found


def replay(name: str, kinds: Sequence[str]) -> int:
    """Runs the case of a name and prints all that is known of it."""
    import torch.distributed  # noqa: F401 - as above

    wrong = False
    for kind in kinds:
        for case in drawn(int(name.partition("/")[0]), mutate=kind == "mutated"):
            if case.name == name:
                ((_, came),) = play([case])
                thought = judged(case, came)
                wrong = wrong or not thought.good
                print(script_of(case, came, thought), came.text, sep="\n")
    return int(wrong)


def script_of(case: FuzzCase, came: Observation, thought: Judgement) -> str:
    """A script that makes the case's calls, with what came of it above."""
    lines = [
        f"{case.name}: {thought.value}; predicted: {case.prediction.value}",
        *([case.mutation.text(case.program)] if case.mutation is not None else []),
        f"{came.status} after {came.seconds:.2f} s: {came.cause}",
        *came.told,
        *came.ranks,
    ]
    comment = "".join(f"# {part}\n" for line in lines for part in line.splitlines())
    return comment + source_of(case.program, mutation=case.mutation)


def _parser() -> argparse.ArgumentParser:
    description, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="fuzz_communication.py",
        description=description,
        epilog=f"{details}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--cases", metavar="N", type=_positive, default=100, help="how many programs (default: 100)")
    add(
        "--seed", metavar="S", type=int, help="the seed of the first batch, which the next ones count on from"
    )
    add("--jobs", metavar="N", type=_positive, default=2 * (os.cpu_count() or 1),
        help="programs side by side (default: two for each processor, as they mostly wait)")  # fmt: skip
    add("--only", metavar="KIND", dest="kinds", action="append", choices=KINDS,
        help="only right programs, or mutated ones; repeatable")  # fmt: skip
    add(
        "--replay",
        metavar="NAME",
        help="run the case of this name, 4711/3, and print its script and its text",
    )
    add("--out", metavar="DIR", type=Path, help="write each case that comes out wrong to this directory")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _show(result: Result, out: Path | None) -> None:
    """Prints a case that was wrong, and writes its script if it was so twice."""
    case, came = result.case, result.came
    only = "right" if case.mutation is None else "mutated"
    once = "" if not result.judgement.good else "once "
    print(f"{result.first.value.upper()} {once}--replay {case.name} --only {only}: {result.kind}")
    print(f"    {case.program if case.mutation is None else case.mutation.text(case.program)}")
    print(f"    {came.status} after {came.seconds:.2f} s: {came.cause}")
    for line in came.told[:4]:
        print(f"    {line}")
    sys.stdout.flush()
    if out is not None and not result.judgement.good:
        out.mkdir(parents=True, exist_ok=True)
        name = f"{case.name.replace('/', '-')}-{only}.py"
        (out / name).write_text(script_of(case, came, result.judgement), encoding="utf-8")


def _sum_up(results: Sequence[Result]) -> None:
    """Prints how many cases of each kind were judged how, and how long proofs took."""
    counts = Counter((each.kind, each.judgement.value) for each in results)
    for (kind, judgement), count in sorted(counts.items()):
        print(f"{kind}: {count} {judgement}")
    proofs = sorted(each.came.seconds for each in results if each.judgement is Judgement.PROVEN)
    if proofs:
        print(f"proofs took {proofs[len(proofs) // 2]:.2f} s (median), {proofs[-1]:.2f} s (most)")
    harmful = [r for r in results if r.judgement not in (Judgement.RIGHT, Judgement.UNSEEN)]
    good = sum(each.judgement.good for each in harmful)
    once = sum(not each.first.good and each.judgement.good for each in results)
    if harmful:
        print(f"{good} of {len(harmful)} programs with a fault: proven or reported, and blamed rightly")
    print(
        f"{len(results)} cases, {sum(not each.judgement.good for each in results)} wrong, {once} wrong once"
    )


if __name__ == "__main__":
    sys.exit(main())
