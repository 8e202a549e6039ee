"""The rank modes "fresh" (new ranks for each test) and "pooled" (ranks kept from test to test).

Each combines a launcher with the supervisor; neither of those knows the other, and a case knows neither.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from time import monotonic

from harness import environment
from harness.rank_merging import DEFAULT_RULES, MergeRules
from harness.ranks.deadlines import Limits
from harness.ranks.debugger import give_back_terminal
from harness.ranks.job import UNSWEPT, Job, JobResult
from harness.ranks.processes import choose_launcher, pool
from harness.ranks.processes.deadlock_watch import LOOK_EVERY_S
from harness.ranks.processes.fast_path import await_passes
from harness.ranks.processes.launcher import Launcher
from harness.ranks.processes.live_output import Screen
from harness.ranks.processes.output import Output
from harness.ranks.processes.pool import PooledSet
from harness.ranks.processes.rank_process import RankProcess
from harness.ranks.processes.rank_set import RankSet
from harness.ranks.processes.supervisor import Supervisor
from harness.settings import Settings
from harness.system import originals
from harness.system.rank_logs import log_file


class FreshRanks:
    """Ranks that are started for one test and end with it.

    ``started`` is the time of the launch in seconds on the monotonic clock; the deadline counts from when the
    ranks begin the test, which may be later.
    """

    @originals.harness_code
    def __init__(self, job: Job, launcher: Launcher | None = None) -> None:
        """``launcher`` is by default the one that the job's settings ask for."""
        self._job = job
        self._launcher = launcher or choose_launcher.launcher(job.settings.launcher)
        self.started = monotonic()
        self.ranks: RankSet = self._launcher.launch(job.request)
        self.processes = [RankProcess(self.ranks, rank) for rank in range(self.ranks.world_size)]

    @originals.harness_code
    def join(self, rules: MergeRules) -> JobResult:
        """Supervises the ranks to their end."""
        job = self._job
        result = supervise(
            self.ranks,
            job.test_id,
            job.settings,
            attempt=job.attempt,
            started=self.started,
            timeout_s=job.timeout_s,
            rules=rules,
        )
        for process, outcome in zip(self.processes, result.outcomes, strict=True):
            process.exitcode = outcome.exit_code
        self.ranks.close()
        replace_if_stuck(self._launcher, result)
        return result

    @originals.harness_code
    def close(self) -> None:
        """Ends the ranks where ``join`` was never called."""
        self.ranks.close()

    def how_the_server_ended(self) -> str:
        """How the launcher's server ended, as text."""
        return self._launcher.how_it_ended()


class PooledRanks:
    """Ranks that are kept after the test; they are replaced where the test fails, leaks or loses a rank."""

    def __init__(self, job: Job, launcher: Launcher | None = None) -> None:
        self._job = job
        self._launcher = launcher or choose_launcher.launcher(job.settings.launcher)
        self._pool = pool.own_pool()
        size = job.request.world_size
        # A process group that is kept has the settings of the environment in which it was made.
        variables = environment.group_variables() if job.keeps_group else None
        request, where = job.request, job.settings.placement
        key = (
            size,
            self._launcher.name,
            job.pool_key,
            variables,
            request.preload,
            where,
            request.least_hosts,
        )
        if not self._begin(key):  # a rank of earlier tests has just ended
            self._pool.retire()
            self._begin(key)
        self.processes = [RankProcess(self._set.ranks, rank) for rank in range(size)]
        self._joined = False

    def _begin(self, key: Hashable) -> bool:
        """Sends the test to the kept ranks or to new ones; returns False where one of them cannot be told."""
        job = self._job
        self._set: PooledSet = self._pool.lease(key, self._make)
        self.first_of_its_set = self._set.tests_run == 0
        self._started = monotonic()
        file = self._set.rdvz_file if job.keeps_group else job.request.file_name
        return self._set.send(job.request, file_name=file, keeps_group=job.keeps_group)

    @originals.harness_code
    def _make(self) -> RankSet:
        return self._launcher.launch(replace(self._job.request, pooled=True))

    @originals.harness_code
    def join(self, rules: MergeRules) -> JobResult:
        """Waits for every rank's report; the ranks are kept unless the test leaves them unfit for another."""
        job = self._job
        self._joined = True
        try:
            result = supervise(
                self._set.ranks,
                job.test_id,
                job.settings,
                attempt=job.attempt,
                started=self._started,
                timeout_s=job.timeout_s,
                rules=rules,
                keep=True,
            )
        except BaseException:
            self._pool.retire()
            raise
        outcomes = pool.with_group_counts_compared(result.outcomes)
        if outcomes is not result.outcomes:
            result = replace(result, outcomes=outcomes)
        if result.server_lost or not pool.reusable(result.outcomes):
            for process, outcome in zip(self.processes, result.outcomes, strict=True):
                process.exitcode = outcome.exit_code
            self._pool.retire()
            replace_if_stuck(self._launcher, result)
        return result

    def close(self) -> None:
        """Replaces ranks on which a test was started but never joined: their state is unknown."""
        if not self._joined:
            self._joined = True
            self._abandon()

    @originals.harness_code
    def _abandon(self) -> None:
        self._pool.retire()

    def how_the_server_ended(self) -> str:
        """How the launcher's server ended, as text."""
        return self._launcher.how_it_ended()


def replace_if_stuck(launcher: Launcher, result: JobResult) -> None:
    """Ends a server that did not report its sweep of leftover processes, since it is stuck."""
    if UNSWEPT in result.notes:
        launcher.close()


def supervise(
    ranks: RankSet,
    test_id: str,
    settings: Settings,
    *,
    started: float | None = None,
    timeout_s: float | None = None,
    rules: MergeRules = DEFAULT_RULES,
    keep: bool = False,
    attempt: str = "",
) -> JobResult:
    """Supervises live ranks until each has ended; closes the rank set where that raises.

    ``started`` (monotonic seconds, default now) is the earliest that the deadline of ``timeout_s`` seconds
    counts from. With
    ``keep`` it returns as soon as every rank has reported, and the ranks stay alive.
    ``attempt`` is part of the names of their logs.
    """
    deadline_s = settings.deadline_s() if timeout_s is None else timeout_s
    limits = Limits.of(settings, deadline_s, ranks.world_size)
    begun = monotonic() if started is None else started
    debugged = settings.pdb_rank
    heard = None
    if keep and debugged is None:
        # Beyond the time for a first look, ranks that wait for ever are found by the supervisor.
        heard = await_passes(ranks, min(begun + limits.timeout_s, monotonic() + LOOK_EVERY_S))
        if heard.outcomes is not None:
            return JobResult(heard.outcomes)
    screen = Screen()
    outputs = [
        Output(
            shown=screen.shown(rank, settings.rank_output),
            log=log_file(settings.log_dir, test_id, rank, attempt),
        )
        for rank in range(ranks.world_size)
    ]
    try:
        return Supervisor(
            ranks, outputs, limits, begun, rules, keep=keep, patient_with=debugged, heard=heard
        ).run()
    except BaseException:
        ranks.close()
        raise
    finally:
        if debugged is not None:
            give_back_terminal()
