"""The rank mode "threads": runs a test's ranks as threads of this process, with a process group for each.

Classes of ``MultiThreadedTestCase`` get torch's threaded process groups. A class written for processes that
allows this mode gets the backend that it passes to ``init_process_group``: gloo connects threads as it
connects processes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from time import monotonic
from typing import Any

from harness.rank_merging import MergeRules
from harness.ranks.direct_channel import DirectChannel
from harness.ranks.job import Job, JobResult
from harness.ranks.rank_class import class_of_rank
from harness.ranks.threads.rank import RankThread
from harness.ranks.threads.rank_set import RankThreads
from harness.ranks.threads.supervisor import supervise_threads

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


class ThreadRanks:
    """Runs each test on new threads, which end with it.

    A class's ``_run`` is called in each thread as it is in a process, on a subclass made for the rank, so
    that class attributes that it sets are the rank's own. ``_run_in_thread(rank, method, channel)`` is called
    instead where a class has it. ``takes_turns = False`` lets the ranks of a class run at the same time (see
    ``run_token``).
    """

    processes: Sequence[Any] = ()

    def __init__(self, job: Job) -> None:
        self._job = job
        self._started = monotonic()
        self._ranks = RankThreads(
            job.request.world_size,
            functools.partial(_body, job),
            timeout_s=job.timeout_s,
            turns=getattr(job.case, "takes_turns", True),
            values=job.request.values,
            cells=job.request.cells,
        )
        self.threads: list[RankThread] = self._ranks.threads
        self._ranks.start()

    def join(self, rules: MergeRules) -> JobResult:
        """Supervises the threads to their end."""
        job = self._job
        return supervise_threads(
            self._ranks, job.settings, started=self._started, timeout_s=job.timeout_s, rules=rules
        )

    def close(self) -> None:
        """Ends the threads where ``join`` was never called, as far as threads can be ended."""
        self._ranks.interrupt_all()

    def how_the_server_ended(self) -> str:
        """Text for the interface: there is no server."""
        return "no server"


def _body(job: Job, rank: int, channel: DirectChannel) -> None:
    own = getattr(job.case, "_run_in_thread", None)
    if own is not None:
        own(rank, job.request.method, channel)
        return
    case = class_of_rank(job.case)
    case._run(rank, job.request.method, job.request.file_name, channel, **job.request.kwargs)
