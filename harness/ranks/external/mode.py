"""The rank mode "external": runs the test in this process, as one rank, and merges what all ranks report.

``ranks.external.rank_set`` describes what the processes exchange, and what is impossible in this mode.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import unittest
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from harness import environment
from harness.errors import LaunchError, RankError
from harness.outcomes import ErrorInfo, RankOutcome, Status, describe
from harness.rank_merging import DEFAULT_RULES, MergeRules, merge
from harness.ranks.deadlines import Limits
from harness.ranks.direct_channel import DirectChannel
from harness.ranks.external import rank_set, watchdog
from harness.ranks.external.held_report import HeldReport, hold, settle
from harness.ranks.external.outcome_log import OutcomeLog
from harness.ranks.external.rank import InProcessRank, clean_up
from harness.ranks.external.supervisor import ExternalSupervisor
from harness.ranks.external.termination import Termination, announce, not_run_lines, number_of
from harness.ranks.external.unittest_run import UnittestRun, around
from harness.ranks.job import Job, JobResult
from harness.ranks.rank_class import class_of_rank
from harness.report.failure import failure_text
from harness.settings import Settings
from harness.system import originals
from harness.system.per_process import PerProcess

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def own_rank_set(run: UnittestRun | None = None) -> rank_set.ExternalRankSet:
    """This process's rank set; ``run`` is what unittest runs here.

    UsageError or LaunchError where no external launcher started it, or it cannot work with the others.
    """
    settings = environment.settings()
    return rank_set.own_rank_set(environment.environment(), settings.deadline_s(), settings.exit_grace_s, run)


@dataclass(slots=True)
class _OwnTermination:
    """This process's ear for SIGTERM, None while it has none."""

    made: Termination | None = None


_termination = PerProcess(_OwnTermination)


class ExternalRanks:
    """Runs a test on the first of the ranks that were started.

    The body runs in ``join``; a process whose rank the test does not need waits there for the verdict.
    """

    processes: Sequence[Any] = ()

    def __init__(self, job: Job) -> None:
        """LaunchError where too few ranks were started, or one of them is lost.

        SkipTest where too few were started, and the settings want that.
        """
        self._job = job
        self._rank_set = own_rank_set()
        started = self._rank_set.launched.world_size
        if job.settings.too_few_ranks == "skip" and job.request.world_size > started:
            raise unittest.SkipTest(f"needs {job.request.world_size} ranks, and {started} were started")
        self._rank_set.require(job.request.world_size)

    def join(self, rules: MergeRules) -> JobResult:
        """Runs this process's rank and waits for every rank's report; LaunchError where the store is gone.

        What the case's ``setUp`` has patched is so in the rank, and again afterwards.
        """
        patches = originals.restore()
        termination = _termination.get().made
        try:
            if termination is not None:
                termination.supervised = True
            return self._join(rules, patches)
        finally:
            if termination is not None:
                termination.supervised = False
            originals.apply(patches)

    def _join(self, rules: MergeRules, patches: tuple[originals.Patch, ...]) -> JobResult:
        job, ours = self._job, self._rank_set
        log = ours.begin(job.test_id)
        own = InProcessRank(ours.launched.rank, self._body, patches) if self._takes_part else None
        listener = _listener(
            log, ours, job.test_id, job.request.world_size, job.settings, job.timeout_s, own, rules
        )
        if own is not None:
            outcome = self._run(own, log, listener)
            if own.interrupted:
                return JobResult((outcome,), (), interrupted=True)
        watched = _heard(listener, ours, job.test_id)
        return watched if ours.launched.rank == 0 else _without_accepted(watched)

    def _run(self, own: InProcessRank, log: OutcomeLog, listener: ExternalSupervisor) -> RankOutcome:
        """Runs this process's rank, until its process groups are destroyed."""
        try:
            watchdog.arm(Limits.of(self._job.settings, self._job.timeout_s).timeout_s)
            outcome = own.run()
            watchdog.disarm()
            _say(log, outcome, listener)
            if not own.interrupted:
                listener.released.wait()
                clean_up(passed=outcome.status is Status.PASSED)
        finally:
            listener.cleaned.set()
        return outcome

    @property
    def _takes_part(self) -> bool:
        return self._rank_set.launched.rank < self._job.request.world_size

    def _body(self, channel: DirectChannel) -> None:
        request = self._job.request
        file_name = self._rank_set.rendezvous(self._job.test_id)
        case = class_of_rank(self._job.case)
        case._run(self._rank_set.launched.rank, request.method, file_name, channel, **request.kwargs)

    def close(self) -> None:
        """Does nothing: ``join`` leaves nothing running."""

    def how_the_server_ended(self) -> str:
        """Text for the interface: there is no server."""
        return "no server"


def _listener(
    log: OutcomeLog,
    ours: rank_set.ExternalRankSet,
    test_id: str,
    world_size: int,
    settings: Settings,
    timeout_s: float,
    own: InProcessRank | None,
    rules: MergeRules,
) -> ExternalSupervisor:
    """Makes and starts a test's ``ExternalSupervisor``."""
    end = functools.partial(_end_process, ours, test_id, settings.exit_grace_s, own)
    limits = Limits.of(settings, timeout_s, no_grace_in_debugger=True)
    made = ExternalSupervisor(
        log, ours.launched.rank, world_size, limits, own, end, rules, ours.over, watchdog.arm
    )
    made.start()
    return made


def _say(log: OutcomeLog, outcome: RankOutcome, listener: ExternalSupervisor) -> None:
    try:
        log.append(outcome)
    except RuntimeError as error:  # the store is gone, which the listener notices as well
        listener.failure = listener.failure or error


def _heard(listener: ExternalSupervisor, ours: rank_set.ExternalRankSet, test_id: str) -> JobResult:
    """Waits for the listener to end and returns its result; records the ranks that were lost."""
    listener.join()
    if listener.failure is not None:
        raise ours.store_gone(listener.failure)
    watched = listener.watch
    for outcome in watched.outcomes:
        if outcome.rank in listener.lost:
            ours.lost.setdefault(outcome.rank, f"{test_id}, where {describe(outcome)}")
    return watched


def _without_accepted(watched: JobResult) -> JobResult:
    """Removes the accepted outputs from all outcomes, because only rank 0's process writes them."""
    return replace(watched, outcomes=tuple(replace(o, accepted=()) for o in watched.outcomes))


def _end_process(
    ours: rank_set.ExternalRankSet,
    test_id: str,
    within_s: float,
    own: InProcessRank | None,
    listener: ExternalSupervisor,
) -> None:
    """Ends a process whose test cannot be interrupted, with the verdict and unittest's exit code.

    It first waits up to ``within_s`` seconds for the other processes to finish, which the launcher may end
    together with this one.
    """
    watchdog.disarm()  # it is this thread that has come to end it
    known = listener.watch.outcomes
    silent = [] if own is None or own.rank in {o.rank for o in known} else [own.stuck()]
    lines = [
        failure_text(test_id, merge([*known, *silent]), rerun="", seed=None),
        f"harness: rank {ours.launched.rank} hangs in this test, or in its process groups: its process ends",
        *_not_run(ours),
    ]
    print("\n".join(lines), file=sys.stderr, flush=True)
    ours.leave(within_s)
    os._exit(1)


def _not_run(ours: rank_set.ExternalRankSet) -> list[str]:
    """Lines with the names of the tests that this process will not run; none where they are named already."""
    termination = _termination.get().made
    tests = (termination.not_run or termination.run.tests[1:]) if termination is not None else ()
    told = (
        termination is not None and termination.came.is_set() and (ours.launched.rank == 0 or not ours.speaks)
    )
    return [] if told or not tests else [f"harness: {number_of(tests)} after this one", *not_run_lines(tests)]


def begun(case: unittest.TestCase) -> int:
    """How often a test has begun in this process.

    Joins the rank set first where that has not been done: it has to be done before ``setUp`` changes the
    variables that hold this process's rank.
    """
    run = around(case, sys._getframe(1))
    ours = own_rank_set(run)
    kept = _termination.get()
    if kept.made is None:
        kept.made = _prepare(ours, run)
    kept.made.run = run
    return ours.times(case.id())


def _prepare(ours: rank_set.ExternalRankSet, run: UnittestRun) -> Termination:
    """What this process does once, before its first test: it listens for SIGTERM, and holds its report."""
    rank = ours.launched.rank
    made = Termination(functools.partial(announce, rank), ours.over)
    made.listen()
    held = hold(run.result) if rank else None
    if held is not None and run.result is not None:
        atexit.register(_settle, ours, held, run.result)
    return made


def _settle(ours: rank_set.ExternalRankSet, held: HeldReport, result: unittest.TestResult) -> None:
    """At the end of a process other than rank 0's: shows its report, or a line in its place."""
    settle(held, result, ours.launched.rank, ours.begun, speaks=ours.speaks)
    if ours.over.is_set() and ours.speaks:
        print(*_not_run(ours), sep="\n", file=sys.stderr, flush=True)


def report_skip_if_not_run(case: Any, times: int) -> None:
    """The last cleanup of a test: reports a skip where ``setUp`` failed or skipped in this process.

    The other processes would wait for its report otherwise. ``times`` is how often the test had begun before.
    RankError where other processes ran the test, because their verdict applies to this process as well.
    """
    ours = own_rank_set()
    if ours.times(case.id()) != times:
        return
    size = _ranks_of(case, ours)
    if size > ours.launched.world_size:
        return  # no process runs a test that needs more ranks than were started
    log = ours.begin(case.id())
    try:
        ours.require(size)
    except LaunchError as lost:
        # There is nothing to wait for, but a lost rank that has not noticed it may still run this test.
        error = ErrorInfo("LaunchError", str(lost), str(lost))
        with suppress(RuntimeError):
            log.append(RankOutcome(ours.launched.rank, Status.ERROR, error))
        return
    settings = environment.settings()
    listener = _listener(log, ours, case.id(), size, settings, case._timeout_s(settings), None, DEFAULT_RULES)
    if ours.launched.rank < size:
        reason = "its test skipped or failed before it came to the ranks"
        _say(log, RankOutcome(ours.launched.rank, Status.SKIPPED, skip_reason=reason), listener)
    outcome = merge(_heard(listener, ours, case.id()).outcomes)
    if outcome.status is not Status.SKIPPED:
        raise RankError(f"{case.id()}: {outcome.reason}", outcome)


def _ranks_of(case: Any, ours: rank_set.ExternalRankSet) -> int:
    """The test's world size; the number of started ranks where the test's class gives none."""
    try:
        size = int(case.world_size)
    except unittest.SkipTest:
        return ours.launched.world_size
    return size if size > 0 else ours.launched.world_size
