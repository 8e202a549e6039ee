"""How the known failures of a target change the verdicts of a run, in either direction. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from harness.outcomes import Status
from harness.record import TestRecord
from harness.targets.known import Known


def judged(record: TestRecord, table: Sequence[Known]) -> TestRecord:
    """The record of a test, with a known failure as an expected one, and a pass in its place as unexpected.

    ``extra["known"]`` then has ``why`` and the test's own ``status``. Other records are returned as they are.
    """
    known = next((each for each in table if each.concerns(record.id)), None)
    if known is None:
        return record
    extra = {**record.extra, "known": {"why": known.why, "status": record.status.value}}
    if record.status.bad:
        reason = f"known: {known.why} ({record.status.value}: {record.reason})"
        return replace(record, status=Status.XFAILED, reason=reason, extra=extra)
    if record.status is Status.PASSED:
        reason = f"mended: it passes, so take it out of the target's KNOWN ({known.tests}: {known.why})"
        return replace(record, status=Status.XPASSED, reason=reason, extra=extra)
    return record


def stale(table: Iterable[Known], ids: Iterable[str]) -> str:
    """A line about entries that are about none of these tests; "" where there are none."""
    tests = tuple(ids)
    found = [each.tests for each in table if not any(each.concerns(test) for test in tests)]
    if not found:
        return ""
    return f"KNOWN of the target names no test of this run: {', '.join(found)}"
