"""Rank modes: what the ranks of a test are. One strategy each, behind ``RunningRanks``.

A case asks its mode to start a ``Job``; what it gets back can be joined once and closed at any time. The
modes glue launchers to the supervisor; neither knows the other, and a case knows neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from harness import environment
from harness.outcomes import MergeRules, RankOutcome, Status
from harness.protocol import Launch
from harness.ranks.external.mode import ExternalRanks
from harness.ranks.job import UNSWEPT, JobResult
from harness.ranks.local.rank import LocalTensorRanks
from harness.ranks.processes import choose_launcher
from harness.ranks.processes.mode import watch
from harness.ranks.processes.pool import Pool, PooledSet
from harness.ranks.processes.rank_process import RankProcess
from harness.ranks.processes.rank_set import Launcher, RankSet
from harness.ranks.threads.mode import ThreadRanks
from harness.settings import Settings
from harness.system.per_process import PerProcess


@dataclass(frozen=True, slots=True)
class Job:
    """One test as a mode needs to know it.

    ``request`` says what ranks import and run; ``case`` is the class (its ``_run`` is what every rank does);
    ``pool_key`` names what pooled ranks of this test may share, beyond world size and launcher;
    ``keeps_group`` where the process group is kept with them. ``timeout_s`` is the test's deadline.
    """

    case: Any
    test_id: str
    request: Launch
    settings: Settings
    timeout_s: float
    pool_key: Hashable = None
    keeps_group: bool = False


class RunningRanks(Protocol):
    """The started ranks of one test."""

    @property
    def processes(self) -> Sequence[RankProcess]:
        """The ranks that are processes, by rank."""
        ...

    def join(self, rules: MergeRules) -> JobResult:
        """Waits until every rank is done or ended; called once."""
        ...

    def close(self) -> None:
        """Ends what still runs; nothing happens the second time."""
        ...

    def how_the_server_ended(self) -> str:
        """What became of the server, where ``JobResult.server_lost``."""
        ...


class FreshRanks:
    """Every test gets ranks of its own, and they end with it."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._launcher = choose_launcher.launcher(job.settings.launcher)
        self._started = time.monotonic()
        self._ranks: RankSet = self._launcher.launch(job.request)
        self.processes = [RankProcess(self._ranks, rank) for rank in range(self._ranks.world_size)]

    def join(self, rules: MergeRules) -> JobResult:
        """Supervises the ranks to their end."""
        job = self._job
        result = watch(
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
        _replace_if_stuck(self._launcher, result)
        return result

    def close(self) -> None:
        """Ends ranks that nobody joined."""
        self._ranks.close()

    def how_the_server_ended(self) -> str:
        """The end of the launcher's server in words."""
        return self._launcher.how_it_ended()


class PooledRanks:
    """Ranks outlive the test; a set that a test leaves dirty, failed or dead is replaced."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._launcher = choose_launcher.launcher(job.settings.launcher)
        self._pool = _pool.get()
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
            result = watch(
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
        result = _compared(result)
        if result.server_lost or not _fit(result.outcomes):
            for process, outcome in zip(self.processes, result.outcomes, strict=True):
                process.exitcode = outcome.exit_code
            self._pool.retire()
            _replace_if_stuck(self._launcher, result)
        return result

    def close(self) -> None:
        """A test that was started and never joined leaves its set in an unknown state: it is replaced."""
        if not self._joined:
            self._joined = True
            self._pool.retire()

    def how_the_server_ended(self) -> str:
        """The end of the launcher's server in words."""
        return self._launcher.how_it_ended()


def _replace_if_stuck(launcher: Launcher, watched: JobResult) -> None:
    """Ends the server where it cannot sweep: it would not answer the next test either."""
    if UNSWEPT in watched.notes:
        launcher.close()


def _compared(watched: JobResult) -> JobResult:
    """With what the test left that only shows when ranks are compared: torch names process groups by counting
    those that a rank began to make, so ranks that count apart would wait for ever for each other's next one.
    """
    begun = {o.groups_begun for o in watched.outcomes}
    if len(begun) < 2:
        return watched
    line = {n: f"process groups begun: {n}, on others {_listed(begun - {n})}" for n in begun}
    outcomes = tuple(replace(o, left=(*o.left, line[o.groups_begun])) for o in watched.outcomes)
    return replace(watched, outcomes=outcomes)


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _fit(outcomes: Sequence[RankOutcome]) -> bool:
    """Whether the ranks may run another test: all passed, or all skipped, and none was left changed."""
    status = outcomes[0].status
    agreed = status in (Status.PASSED, Status.SKIPPED) and all(o.status is status for o in outcomes)
    return agreed and not any(o.left or o.bad for o in outcomes)


MODES: dict[str, Callable[[Job], RunningRanks]] = {
    "fresh": FreshRanks,
    "pooled": PooledRanks,
    "threads": ThreadRanks,
    "local": lambda job: LocalTensorRanks(job, PooledRanks),
    "external": ExternalRanks,
}


def _begin() -> Pool:
    """A pool that ends before the servers do, at exit or by ``select.close_all``."""
    pool = Pool()
    choose_launcher.on_close(pool.retire)
    return pool


# A fork of this process must not use its parent's ranks.
_pool = PerProcess(_begin)


def retire_pool() -> None:
    """Ends the ranks that this process keeps for later tests, if any."""
    pool = _pool.held()
    if pool is not None:
        pool.retire()
