"""What a rank's report and the way it ended come to together; ``JobResult``, what came of a test's ranks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.outcomes import EXIT_SKIPPED, RankOutcome, Status
from harness.ranks.deadlines import Why

HUNG_AT_EXIT = "and then did not leave"
UNSWEPT = "the server never said what these ranks left behind"


@dataclass(frozen=True, slots=True)
class JobResult:
    """What came of a test's ranks: every rank's outcome, and lines about processes that they left behind.

    ``server_lost`` where the server died under them, ``interrupted`` where Ctrl-C ended them;
    ``notes`` are further lines for whoever reads the verdict.
    """

    outcomes: tuple[RankOutcome, ...]
    leaked: tuple[str, ...]
    server_lost: bool = False
    interrupted: bool = False
    notes: tuple[str, ...] = ()


def hung_at_exit(report: RankOutcome) -> RankOutcome:
    """The outcome of a rank that reported and did not leave; what had failed before stays the cause."""
    if report.status in (Status.FAILED, Status.ERROR):
        return replace(report, phase="exit", note="; ".join(filter(None, (report.note, HUNG_AT_EXIT))))
    return replace(report, status=Status.TIMED_OUT, phase="exit")


def left_wrongly(report: RankOutcome, code: int | None, told_to_end: bool) -> bool:
    """Whether a rank that had passed or skipped then ended as one that crashes does."""
    fine = {Status.PASSED: (0, None), Status.SKIPPED: (0, EXIT_SKIPPED, None)}.get(report.status)
    return fine is not None and code not in fine and not told_to_end


def ended_as(why: Why | None) -> Status | None:
    """A rank that had to be ended at its deadline timed out; otherwise it is collateral."""
    if why is None:
        return None
    return Status.TIMED_OUT if why in (Why.TIMEOUT, Why.EXIT) else Status.ENDED
