"""From a test's request to its ranks' outcomes: the one call that joins a launcher and a supervisor."""

from __future__ import annotations

import math
import time

from harness.outcomes import PLAIN, MergeRules
from harness.ranks.deadlines import Limits
from harness.ranks.debugger import give_back_terminal
from harness.ranks.job import JobResult
from harness.ranks.processes.fast_path import await_passes
from harness.ranks.processes.output import Output, log_file
from harness.ranks.processes.rank_set import RankSet
from harness.ranks.processes.supervisor import Supervisor
from harness.settings import Settings


def watch(
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
    patience = math.inf if settings.pdb_rank is not None else 0.0  # a person with a debugger sets no deadline
    limits = Limits(
        timeout_s=max(patience, settings.timeout_s if timeout_s is None else timeout_s),
        grace_s=settings.grace_s,
        skip_grace_s=settings.skip_grace_s,
        exit_grace_s=max(patience, settings.exit_grace_s),
    )
    begun = time.monotonic() if started is None else started
    heard = None
    if keep and settings.pdb_rank is None:
        heard = await_passes(ranks, begun + limits.timeout_s)
        if heard.outcomes is not None:
            return JobResult(heard.outcomes, ())
    stream = settings.rank_output == "stream"
    outputs = [
        Output(rank, stream=stream, log=log_file(settings.log_dir, test_id, rank))
        for rank in range(ranks.world_size)
    ]
    try:
        debugged = settings.pdb_rank
        result = Supervisor(
            ranks, outputs, limits, begun, rules, keep=keep, patient_with=debugged, heard=heard
        ).run()
    except BaseException:
        ranks.close()
        raise
    finally:
        if settings.pdb_rank is not None:
            give_back_terminal()
    return result
