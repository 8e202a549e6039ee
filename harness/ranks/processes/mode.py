"""The rank modes "fresh" and "pooled": a test gets ranks of its own, or those of the tests before it.

Both join a launcher and the supervisor; neither of these knows the other, and a case knows neither.
"""

from __future__ import annotations

import time
from dataclasses import replace

from harness import environment
from harness.outcomes import PLAIN, MergeRules
from harness.ranks.deadlines import Limits
from harness.ranks.debugger import give_back_terminal
from harness.ranks.job import UNSWEPT, Job, JobResult
from harness.ranks.processes import choose_launcher, pool
from harness.ranks.processes.fast_path import await_passes
from harness.ranks.processes.launcher import Launcher
from harness.ranks.processes.output import Output, log_file
from harness.ranks.processes.pool import PooledSet
from harness.ranks.processes.rank_process import RankProcess
from harness.ranks.processes.rank_set import RankSet
from harness.ranks.processes.supervisor import Supervisor
from harness.settings import Settings


class FreshRanks:
    """Ranks that a test has to itself and that end with it."""

    def __init__(self, job: Job) -> None:
        """Starts the ranks; the test's deadline counts from now."""
        self._job = job
        self._launcher = choose_launcher.launcher(job.settings.launcher)
        self._started = time.monotonic()
        self._ranks: RankSet = self._launcher.launch(job.request)
        self.processes = [RankProcess(self._ranks, rank) for rank in range(self._ranks.world_size)]

    def restart_deadline(self) -> None:
        """Lets the test's deadline count from now, when the ranks' start is not to count against it."""
        self._started = time.monotonic()

    def join(self, rules: MergeRules) -> JobResult:
        """Supervises the ranks to their end."""
        job = self._job
        result = supervise(
            self._ranks,
            job.test_id,
            job.settings,
            started=self._started,
            timeout_s=job.timeout_s,
            rules=rules,
        )
        for process, outcome in zip(self.processes, result.outcomes, strict=True):
            process.exitcode = outcome.exit_code
        self._ranks.close()
        replace_if_stuck(self._launcher, result)
        return result

    def close(self) -> None:
        """Ends ranks that nobody joined."""
        self._ranks.close()

    def how_the_server_ended(self) -> str:
        """The end of the launcher's server in words."""
        return self._launcher.how_it_ended()


class PooledRanks:
    """Ranks that outlive the test; a set that a test leaves dirty, failed or dead is replaced."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._launcher = choose_launcher.launcher(job.settings.launcher)
        self._pool = pool.own_pool()
        size = job.request.world_size
        # A group that is kept goes by the variables with which it was made.
        variables = environment.group_variables() if job.keeps_group else None
        key = (size, self._launcher.name, job.pool_key, variables)
        self._set: PooledSet = self._pool.lease(key, self._make)
        self.processes = [RankProcess(self._set.ranks, rank) for rank in range(size)]
        self.first_of_its_set = self._set.tests_run == 0
        self._started = time.monotonic()
        self._joined = False
        file = self._set.rdvz_file if job.keeps_group else job.request.file_name
        self._set.send(job.request, file_name=file, keeps_group=job.keeps_group)

    def _make(self) -> RankSet:
        return self._launcher.launch(replace(self._job.request, pooled=True))

    def join(self, rules: MergeRules) -> JobResult:
        """Waits for every rank's report; the ranks stay, unless the test leaves them unfit for another."""
        job = self._job
        self._joined = True
        try:
            result = supervise(
                self._set.ranks,
                job.test_id,
                job.settings,
                started=self._started,
                timeout_s=job.timeout_s,
                rules=rules,
                keep=True,
            )
        except BaseException:
            self._pool.retire()
            raise
        result = replace(result, outcomes=pool.compared(result.outcomes))
        if result.server_lost or not pool.fit_for_another(result.outcomes):
            for process, outcome in zip(self.processes, result.outcomes, strict=True):
                process.exitcode = outcome.exit_code
            self._pool.retire()
            replace_if_stuck(self._launcher, result)
        return result

    def close(self) -> None:
        """A test that was started and never joined leaves its set in an unknown state: it is replaced."""
        if not self._joined:
            self._joined = True
            self._pool.retire()

    def how_the_server_ended(self) -> str:
        """The end of the launcher's server in words."""
        return self._launcher.how_it_ended()


def replace_if_stuck(launcher: Launcher, result: JobResult) -> None:
    """Ends the server where it cannot sweep: it would not answer the next test either."""
    if UNSWEPT in result.notes:
        launcher.close()


def supervise(
    ranks: RankSet,
    test_id: str,
    settings: Settings,
    *,
    started: float | None = None,
    timeout_s: float | None = None,
    rules: MergeRules = PLAIN,
    keep: bool = False,
) -> JobResult:
    """Supervises live ranks until each is gone, and closes them where that fails.

    ``started`` (monotonic seconds, default now) is when the deadline of ``timeout_s`` seconds began. With
    ``keep`` it returns as soon as every rank has reported, and ranks that did are left alive.
    """
    limits = Limits.of(settings, settings.timeout_s if timeout_s is None else timeout_s)
    begun = time.monotonic() if started is None else started
    debugged = settings.pdb_rank
    heard = None
    if keep and debugged is None:
        heard = await_passes(ranks, begun + limits.timeout_s)
        if heard.outcomes is not None:
            return JobResult(heard.outcomes)
    stream = settings.rank_output == "stream"
    outputs = [
        Output(rank, stream=stream, log=log_file(settings.log_dir, test_id, rank))
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
