"""Outcomes of ranks, and short names of their statuses, for the tests of what is made of them."""

from __future__ import annotations

from dataclasses import replace

from harness.outcomes import ErrorInfo, RankOutcome, Status, SubtestOutcome

ASSERTION = ErrorInfo("AssertionError", "1 != 2", "trace of an assertion", is_assertion=True)
VALUE = ErrorInfo("ValueError", "no such value", "trace of a value error")
CLOSED = ErrorInfo("RuntimeError", "[gloo] Connection closed by peer [::1]:1234", "trace of gloo")
# Each status as a rank would report it.
ERRORS = {Status.FAILED: ASSERTION, Status.ERROR: VALUE}


def rank(number: int, status: Status, order: int | None = None, **fields: object) -> RankOutcome:
    """An outcome with an error that fits its status; received in the order of the ranks unless said."""
    base = RankOutcome(number, status, error=ERRORS.get(status), order=number if order is None else order)
    return replace(base, **fields)  # type: ignore[arg-type]  # the fields of RankOutcome


def ranks(*statuses: Status) -> list[RankOutcome]:
    """Ranks 0, 1, ... with these statuses, received in that order."""
    return [rank(number, status) for number, status in enumerate(statuses)]


def subtest(n: int, status: Status) -> SubtestOutcome:
    """Returns the outcome of a sub-test with the parameter ``n``."""
    return SubtestOutcome(None, (("n", str(n)),), status, ERRORS.get(status))


P, S, F, E = Status.PASSED, Status.SKIPPED, Status.FAILED, Status.ERROR
C, T, X = Status.CRASHED, Status.TIMED_OUT, Status.ENDED
