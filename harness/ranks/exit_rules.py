"""Decides how a rank's exit changes what it reported, and what a rank that the supervisor ended counts as."""

from __future__ import annotations

from dataclasses import replace

from harness.outcomes import EXIT_SKIPPED, RankOutcome, Status
from harness.ranks.deadlines import EndReason

HUNG_AT_EXIT = "and then did not leave"


def hung_at_exit(report: RankOutcome) -> RankOutcome:
    """The outcome of a rank that reported and then did not exit; an earlier failure stays the outcome."""
    if report.status in (Status.FAILED, Status.ERROR):
        return replace(report, phase="exit", note="; ".join(filter(None, (report.note, HUNG_AT_EXIT))))
    return replace(report, status=Status.TIMED_OUT, phase="exit")


def exited_wrongly(report: RankOutcome, code: int | None, ended_by_supervisor: bool) -> bool:
    """Whether a rank that had passed or skipped then ended with an unexpected exit code or by a signal.

    Never True for a rank that the supervisor ended (``ended_by_supervisor``).
    """
    return contradicts(report.status, code) and not ended_by_supervisor


def contradicts(status: Status, code: object) -> bool:
    """Whether exit code ``code`` (None: none known) contradicts a report of ``status``.

    Only a pass or a skip can be contradicted; a rank that failed may exit with any code.
    """
    fine = {Status.PASSED: (0, None), Status.SKIPPED: (0, EXIT_SKIPPED, None)}.get(status)
    return fine is not None and code not in fine


def ended_as(why: EndReason | None) -> Status | None:
    """The status of a rank that the supervisor ended before its report; None where it did not end the rank.

    TIMED_OUT at the test's deadline or at exit, otherwise ENDED, which makes the rank collateral. Which ranks
    are deadlocked, and not merely ended with them, their supervisor knows.
    """
    if why is None:
        return None
    return Status.TIMED_OUT if why in (EndReason.TIMEOUT, EndReason.EXIT) else Status.ENDED


def reported_too_late(report: RankOutcome) -> str:
    """The note about a report that came after the rank's outcome was fixed, and so does not count."""
    return f"its report came too late: {report.error.headline if report.error else report.status.value}"
