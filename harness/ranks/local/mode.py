"""The rank mode "local": runs a DTensor test in one pooled process that simulates every rank.

parent: LocalTensorRanks(job) -- a job for one process, with the number n of ranks --> pool
its process: ``rank.simulation(n)`` around the test
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, Protocol

from harness.errors import UsageError
from harness.outcomes import RankOutcome
from harness.rank_merging import MergeRules, merge
from harness.ranks.job import Job, JobResult, RunningRanks
from harness.ranks.local.rank import ARGUMENT
from harness.ranks.second_attempt import second_attempt
from harness.system import intra_op_threads

WHERE = "in a new process"
POLLUTED = "pollution: state from an earlier test, without which this one passes"


class PooledProcess(RunningRanks, Protocol):
    """A process that is kept from test to test; see ``processes.mode.PooledRanks``."""

    @property
    def first_of_its_set(self) -> bool:
        """Whether the process has run no test before this one."""
        ...


class LocalTensorRanks:
    """The simulated ranks of one test.

    ``start`` starts one pooled process for a job; it is kept from test to test, because the first operators
    on DTensors take a process a second and later ones a millisecond. A test that fails in a process which had
    run other tests is run once more in a new one, if its deadline leaves as much time again: if it fails
    there too, the second outcome counts.
    """

    def __init__(self, job: Job, start: Callable[[Job], PooledProcess]) -> None:
        if not hasattr(job.case, "is_local_tensor_enabled"):
            raise UsageError(
                f"{job.case.__qualname__} cannot run on local tensors: derive it from DTensorTestBase, or "
                'take "local" out of its rank_modes'
            )
        self._world_size = job.request.world_size
        self._job = in_one_process(job)
        self._start = start
        self._started = monotonic()
        self._process = start(self._job)

    @property
    def processes(self) -> Sequence[Any]:
        """The one process, as a sequence."""
        return self._process.processes

    def join(self, rules: MergeRules) -> JobResult:
        """Waits for the process's report, and returns it as the outcome of every simulated rank."""
        result = self._process.join(rules)
        if self._failed(result, rules) and not self._process.first_of_its_set:
            result = self._tried_again(result, rules)
        outcomes = (copy for outcome in result.outcomes for copy in of_every_rank(outcome, self._world_size))
        return replace(result, outcomes=tuple(outcomes))

    def close(self) -> None:
        """Ends the process where ``join`` was never called."""
        self._process.close()

    def how_the_server_ended(self) -> str:
        """How the launcher's server ended, as text."""
        return self._process.how_the_server_ended()

    def _failed(self, result: JobResult, rules: MergeRules) -> bool:
        ended = result.server_lost or result.interrupted
        return not ended and merge(result.outcomes, rules).status.bad

    def _tried_again(self, first: JobResult, rules: MergeRules) -> JobResult:
        """The result of a test that failed in a used process, after a second run in a new one."""
        again = second_attempt(
            self._restarted,
            rules,
            where=WHERE,
            timeout_s=self._job.timeout_s,
            elapsed_s=monotonic() - self._started,
        )
        if again.result is not None and (again.outcome is None or again.outcome.status.bad):
            return again.result
        return replace(first, notes=(*first.notes, again.why_not or POLLUTED))

    def _restarted(self, timeout_s: float) -> RunningRanks:
        """Starts the job in a new process; the pool has ended the one in which the test failed."""
        job = replace(
            self._job,
            request=replace(self._job.request, start_timeout_s=timeout_s),
            timeout_s=timeout_s,
            settings=replace(self._job.settings, log_dir=None),  # the logs stay those of the first attempt
        )
        self._process = self._start(job)
        return self._process


def in_one_process(job: Job) -> Job:
    """The job of the one process that simulates all ranks of ``job``."""
    request, ranks = job.request, job.request.world_size
    played = replace(
        request,
        world_size=1,
        threads=intra_op_threads.of_rank(request.environ, 1),
        kwargs={**request.kwargs, ARGUMENT: ranks},
    )
    return replace(job, request=played, pool_key=("local", ranks, job.pool_key))


def of_every_rank(outcome: RankOutcome, world_size: int) -> tuple[RankOutcome, ...]:
    """The process's outcome as that of each rank that it simulated; the output is kept for rank 0 only."""
    return tuple(
        replace(outcome, rank=rank, output=outcome.output if rank == 0 else "") for rank in range(world_size)
    )
