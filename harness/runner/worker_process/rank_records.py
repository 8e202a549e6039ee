"""Turns the outcome of a multi-rank test into records of its ranks and sub-tests, as reports show them."""

from __future__ import annotations

from harness.outcomes import MergedSubtest, RankOutcome, Status, TestOutcome
from harness.record import MOST_CALLS, RankRecord, SubtestRecord

_SHOWN = (Status.SKIPPED, Status.FAILED, Status.ERROR)


def rank_records(outcome: TestOutcome, *, keep_calls: bool = True) -> tuple[RankRecord, ...]:
    """One record for each rank. Output is kept only where the test neither passed nor was skipped."""
    keep = {"keep_output": outcome.status not in (Status.PASSED, Status.SKIPPED), "keep_calls": keep_calls}
    return tuple(rank_record(rank, **keep) for rank in outcome.ranks)


def rank_record(rank: RankOutcome, *, keep_output: bool = False, keep_calls: bool = True) -> RankRecord:
    """The record of one rank, with or without what it printed, and its calls."""
    return RankRecord(
        rank=rank.rank,
        status=rank.status,
        duration_s=rank.duration_s,
        started_s=rank.started_s,
        exit_code=rank.exit_code,
        peak_memory=rank.peak_memory,
        error=rank.error.traceback if rank.error is not None else "",
        stack=rank.stack,
        output=rank.output if keep_output else "",
        log=rank.log,
        pid=rank.pid,
        calls=tuple(rank.calls[-MOST_CALLS:]) if keep_calls else (),
        calls_made=len(rank.calls),
        host=rank.host,
    )


def subtest_records(outcome: TestOutcome) -> tuple[SubtestRecord, ...]:
    """The sub-tests that failed or were skipped, with their ranks."""
    return tuple(_subtest(merged) for merged in outcome.subtests if merged.subtest.status in _SHOWN)


def _subtest(merged: MergedSubtest) -> SubtestRecord:
    subtest = merged.subtest
    details = subtest.error.traceback if subtest.error is not None else subtest.skip_reason or ""
    return SubtestRecord(str(subtest), subtest.status, details, merged.ranks)
