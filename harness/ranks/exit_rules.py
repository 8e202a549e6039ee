"""What a rank's exit adds to its report: rules for one that reports and then crashes, hangs or is ended."""

from __future__ import annotations

from dataclasses import replace

from harness.outcomes import EXIT_SKIPPED, RankOutcome, Status
from harness.ranks.deadlines import Why

HUNG_AT_EXIT = "and then did not leave"


def hung_at_exit(report: RankOutcome) -> RankOutcome:
    """The outcome of a rank that reported and did not leave; what had failed before stays the cause."""
    if report.status in (Status.FAILED, Status.ERROR):
        return replace(report, phase="exit", note="; ".join(filter(None, (report.note, HUNG_AT_EXIT))))
    return replace(report, status=Status.TIMED_OUT, phase="exit")


def left_wrongly(report: RankOutcome, code: int | None, told_to_end: bool) -> bool:
    """Whether a rank that had passed or skipped then ended as one that crashes does."""
    return contradicts(report.status, code) and not told_to_end


def contradicts(status: Status, code: object) -> bool:
    """Whether an exit with ``code`` (None: without one) is not that of a rank that ended with ``status``.

    Only passes and skips can be contradicted; after a failure every exit code is as good as another.
    """
    fine = {Status.PASSED: (0, None), Status.SKIPPED: (0, EXIT_SKIPPED, None)}.get(status)
    return fine is not None and code not in fine


def ended_as(why: Why | None) -> Status | None:
    """The status of a rank that the supervisor ended: timed out at its deadline, otherwise collateral.

    None for a rank that it did not end.
    """
    if why is None:
        return None
    return Status.TIMED_OUT if why in (Why.TIMEOUT, Why.EXIT) else Status.ENDED
