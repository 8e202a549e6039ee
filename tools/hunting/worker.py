"""Runs one seed of a fuzzer: plays its programs, shrinks what fails, confirms it, and writes the journal."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.fuzzing.fresh_process import START_S, run_script
from harness.fuzzing.hunted import Hunted, Rejected, hunted
from harness.fuzzing.player import played, quiet_environment, smallest
from harness.fuzzing.signature import Failure, Kind, plain
from harness.fuzzing.waiting import Waiting, patience_after
from harness.outcomes import Status
from suites.bugs import book
from tools.hunting import journal, schedules
from tools.hunting.journal import Batch, Find
from tools.hunting.near import Failed, failed_before, near

# How many programs of a seed are run at most, so that all fuzzers get their turns.
PROGRAMS = 100
# How many times its time a program gets that timed out, at first, and how often it is played again.
PATIENCE = 2.0
PLAYS = 3
TIMED_OUT = Failure(Kind.HANGS, plain(Status.TIMED_OUT.value))
# How many finds of one failure are shrunk in any case; of further ones, one in so many.
ALL_UP_TO = 6
ONE_IN = 6


@dataclass(slots=True)
class Task:
    """A seed to run until a moment on the wall clock; ``seen`` counts the finds so far by their failure.

    ``near``: whether most programs are changes of those that failed, all of which are shrunk then.
    """

    fuzzer: str
    seed: int
    until_s: float
    directory: Path
    pythons: Mapping[str, str]
    seen: Counter[Failure] = field(default_factory=Counter)
    near: bool = False


def run(task: Task) -> Batch:
    """Runs the programs of a seed, and writes a ``Find`` for each that fails, and the ``Batch`` in the end.

    A seed for whose programs there was no time has no line, and is run as a whole when the hunt goes on.
    """
    import torch.distributed  # noqa: F401 - once here, and not in every rank

    fuzzer, began_s = hunted(task.fuzzer), time.monotonic()
    ran = rejected = failed = 0
    failing = failed_before(fuzzer, task.directory) if task.near else Failed()
    with quiet_environment():
        for number, program in enumerate(_programs(task, fuzzer, failing)):
            if time.time() > task.until_s:
                break
            chaos = schedules.delays_of(task.seed, number, fuzzer.world_size(program))
            try:
                failure = _failure_of(fuzzer, program, chaos)
            except Rejected:
                rejected += 1
                continue
            ran += 1
            if failure is not None:
                failed += 1
                task.seen[failure] += 1
                find = _found(task, fuzzer, number, program, failure, chaos)
                failing.add(find, program)
                journal.append(task.directory, find)
    batch = Batch(task.fuzzer, task.seed, ran, rejected, failed, time.monotonic() - began_s)
    journal.append(task.directory, batch)
    return batch


def _programs(task: Task, fuzzer: Hunted[Any], failing: Failed) -> Iterator[Any]:
    """Those of the seed, or with ``near`` some of them among changes of what failed."""
    drawn = iter(fuzzer.drawn(task.seed))
    if task.near:
        drawn = near(fuzzer, drawn, failing, random.Random(f"{task.seed}/near"))
    return itertools.islice(drawn, PROGRAMS)


def _failure_of(fuzzer: Hunted[Any], program: Any, chaos: int | None) -> Failure | None:
    """How a program fails; one that timed out runs again, and is given the time in which it had no processor.

    Rejected where it had too little time in all of ``PLAYS``.
    """
    failure = played(fuzzer, program, chaos=chaos)
    patience: float | None = PATIENCE
    for _ in range(PLAYS):
        if failure != TIMED_OUT:
            return failure
        assert patience is not None, "more time is given only as long as the program had too little"
        with Waiting() as waiting:
            failure = played(fuzzer, program, patience=patience, chaos=chaos)
        patience = patience_after(patience, fuzzer.timeout_s, waiting.seconds)
        if patience is None:
            return failure
    if failure == TIMED_OUT:
        raise Rejected("the machine has no time for it")
    return failure


def _found(
    task: Task, fuzzer: Hunted[Any], number: int, program: Any, failure: Failure, chaos: int | None
) -> Find:
    count = task.seen[failure]
    encoded = fuzzer.to_json(program)
    shrink = task.near or count <= ALL_UP_TO or random.Random(f"{task.seed}/{number}").randrange(ONE_IN) == 0
    if shrink:
        program = smallest(fuzzer, program, failure, chaos)
    signature = fuzzer.signature(program, failure)
    entry = book.known(str(signature))
    script = fuzzer.script(program)
    name = None if entry is None else entry.name
    drawn = "" if signature.fuzzer == fuzzer.name else fuzzer.name
    find = Find(signature, task.seed, number, shrink, script, name, {}, program=encoded, fuzzer=drawn)
    if entry is not None or not shrink:
        return find
    releases = confirmed(script, fuzzer.timeout_s, task.pythons)
    ends = schedules.ends(fuzzer, program, chaos, schedules.OTHERS) if fuzzer.world_size(program) > 1 else {}
    return replace(find, releases=releases, schedules=ends)


def confirmed(script: str, timeout_s: float, pythons: Mapping[str, str]) -> dict[str, str]:
    """How a script fails in a fresh process of each interpreter, by the release of torch; "" if it passes."""
    came: dict[str, str] = {}
    for release, python in pythons.items():
        failure, _ = run_script(script, timeout_s + START_S, python)
        came[release] = "" if failure is None else str(failure)
    return came


def releases_of(pythons: Sequence[str]) -> dict[str, str]:
    """The interpreters by the release of torch that each has; one without torch is left out, with a word."""
    found: dict[str, str] = {}
    for python in pythons:
        code = "import torch; raise SystemExit(f'torch {torch.__version__}')"
        _, said = run_script(code, START_S, python)
        release = next((line[6:] for line in said.splitlines() if line.startswith("torch ")), None)
        if release is None:
            print(f"{python}: torch does not import; it is left out", flush=True)
        else:
            found.setdefault(release, python)
    return found
