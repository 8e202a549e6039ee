"""Decides what the rounds of a soak are, whether a round was good, and what the report says of them."""

from __future__ import annotations

import random
import shlex
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.summary import Summary
from harness.runner.exit_codes import ExitCode
from harness.setting_values import LARGEST_SEED

# The name that stands for every standard suite, which run_tests.py runs if it is given none.
SUITES = "suites"
# A run's niceness is drawn from these. A busy loop of niceness 0 takes as much from a nicer run as so many do
# from one of niceness 0, by the weights of Linux's scheduler: 1024, 110 and 15. Such a run has fewer loops
# beside it, or it would not come to its end.
NICENESS = (0, 0, 0, 10, 19)
LOOPS_WORTH = {0: 1, 10: 9, 19: 68}
# The deadline of a test in seconds, as in .ci/run: load makes tests slow, and only a hang has to be ended.
# For the same reason those of suites are multiplied; the self-tests are about deadlines, so theirs stay.
TIMEOUT_S = 600
SELF_TESTS = "selftest"
# The exit codes of a run that the soak ended: in good order, or before it had begun.
CUT = (ExitCode.INTERRUPTED, -signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Soak:
    """What the rounds are drawn from; ``load`` is the number of busy loops on each of the ``cores``."""

    seed: int
    load: int
    names: tuple[str, ...]
    shards: int
    cores: int

    def again(self, number: int) -> str:
        """The command that repeats one round, on a machine with as many cores."""
        options = f"--load {self.load} --shards {self.shards} --seed {self.seed} --first {number} --rounds 1"
        return f"python tools/soak.py {options} --only {shlex.join(self.names)}"


@dataclass(frozen=True, slots=True)
class Round:
    """One run of ``run_tests.py`` and the load beside it.

    ``loops`` is the number of busy loops in all, ``multiplier`` what deadlines are multiplied by.
    """

    number: int
    name: str
    shard: str
    shuffle: int
    jobs: int
    seed: int | None
    nice: int
    loops: int
    memory: bool
    disk: bool
    multiplier: int = 1

    def arguments(self) -> list[str]:
        """The arguments of ``run_tests.py``."""
        names = [] if self.name == SUITES else [self.name]
        seed = [] if self.seed is None else [f"--seed={self.seed}"]
        drawn = [f"--shard={self.shard}", f"--shuffle={self.shuffle}", f"--jobs={self.jobs}", *seed]
        slower = [] if self.multiplier == 1 else [f"--timeout-multiplier={self.multiplier}"]
        return [*names, *drawn, f"--timeout={TIMEOUT_S}", *slower]

    def __str__(self) -> str:
        extras = "".join(f", {what}" for what in ("memory", "disk") if getattr(self, what))
        load = f"{self.loops} busy loops, niceness {self.nice}{extras}"
        return f"round {self.number}: {shlex.join(self.arguments())} beside {load}"


@dataclass(frozen=True, slots=True)
class Failed:
    """A test that did not pass in a round, or not at its first attempt."""

    id: str
    status: Status
    reason: str


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a round.

    ``ran`` has the id of each test as often as it ran; ``trouble`` is empty for a run that did not break;
    ``cut`` is set where the time was over or Ctrl-C came, and no later round follows.
    """

    round: Round
    directory: Path
    ran: tuple[str, ...]
    failed: tuple[Failed, ...]
    trouble: str = ""
    cut: bool = False

    @property
    def ok(self) -> bool:
        """Whether there is nothing to report."""
        return not self.failed and not self.trouble


def draw(soak: Soak, number: int) -> Round:
    """The round of this number, counted from 1; the same soak always has the same one.

    Every shard of every name has its round before one has its second.
    """
    parts = [(name, shard) for name in soak.names for shard in range(1, soak.shards + 1)]
    turn, place = divmod(number - 1, len(parts))
    random.Random(f"turn {turn} of {soak.seed}").shuffle(parts)
    name, shard = parts[place]
    drawn = random.Random(f"round {number} of {soak.seed}")
    nice = drawn.choice(NICENESS)
    return Round(
        number=number,
        name=name,
        shard=f"{shard}/{soak.shards}",
        shuffle=drawn.randrange(LARGEST_SEED),
        jobs=drawn.choice((1, soak.cores, 2 * soak.cores)),
        seed=drawn.choice((None, drawn.randrange(LARGEST_SEED))),
        nice=nice,
        loops=soak.load * soak.cores // LOOPS_WORTH[nice],
        memory=drawn.random() < 0.5,
        disk=drawn.random() < 0.5,
        multiplier=1 if SELF_TESTS in name.split(".") else 1 + soak.load,
    )


def judge(
    drawn: Round, directory: Path, records: Sequence[TestRecord], code: int, *, cut: bool = False
) -> Result:
    """The result of a round from its run's records and exit code; what an interrupt ended does not count.

    UsageError where the run refused its arguments.
    """
    if code == ExitCode.USAGE:
        raise UsageError(f"run_tests.py {shlex.join(drawn.arguments())} was refused; see {directory}/output")
    tests = [test for test in Summary(tuple(records)).tests if test.last.status is not Status.ENDED]
    first = [test.failed[0] for test in tests if test.failed]
    ends = {ExitCode.OK, ExitCode.FAILED, ExitCode.NOTHING_RAN, *(CUT if cut else ())}
    return Result(
        drawn,
        directory,
        ran=tuple(test.id for test in tests),
        failed=tuple(Failed(record.id, record.status, record.reason) for record in first),
        trouble="" if code in ends else f"exit code {code}",
        cut=cut,
    )


def report(soak: Soak, results: Sequence[Result]) -> list[str]:
    """The lines of the report: each test that ever failed, the one that failed most often first."""
    runs = Counter(test for result in results for test in result.ran)
    failures = Counter(failed.id for result in results for failed in result.failed)
    lines = []
    for test, count in failures.most_common():
        lines += [f"{test}: failed in {count} of {runs[test]} runs"]
        for result in results:
            for failed in result.failed:
                if failed.id == test:
                    lines += _where(soak, result, f"{failed.status.value}: {failed.reason}")
    troubled = [result for result in results if result.trouble]
    for result in troubled:
        lines += [
            f"a run of {result.round.name} broke",
            *_where(soak, result, result.trouble),
        ]
    counts = f"runs of tests: {runs.total()}, rounds: {len(results)}, of which broke: {len(troubled)}"
    cut = "; the last one was cut short" if any(result.cut for result in results) else ""
    return [*lines, f"{len(failures)} of {len(runs)} tests failed at least once ({counts}{cut})"]


def _where(soak: Soak, result: Result, what: str) -> list[str]:
    lines = [
        what,
        str(result.round),
        f"files: {result.directory}",
        f"again: {soak.again(result.round.number)}",
    ]
    return [f"    {line}" for line in lines]
