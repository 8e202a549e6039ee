"""A synthetic run with every kind of result, for the self-tests of reporters."""

from __future__ import annotations

from dataclasses import replace

from harness.outcomes import RankOutcome, Status, TestOutcome
from harness.rank_merging import merge
from harness.record import RankRecord, SubtestRecord, TestRecord
from harness.report.base import RunInfo, TestStarted
from harness.report.failure import failure_text
from harness.report.summary import Summary, summarise
from suites.selftest.report.samples import LOST_PEER, failing, waiting

BEGAN_AT = 1_760_000_000.0
BEGAN_S = 1000.0
# All that XML 1.0, HTML and a terminal could stumble over.
NASTY = 'esc \x1b[31mred\x1b[0m nul \x00 bell \x07 </pre><script>alert("&")</script> ]]> \ud800 ünï ✓\ufffe'


def rank_record(outcome: RankOutcome, started_s: float) -> RankRecord:
    """The record of one rank, as reports get it."""
    collectives = []
    for n, call in enumerate(outcome.calls):
        began_s = started_s + 0.01 * n
        ended_s = None if call.ended_s is None else began_s + 0.008
        collectives.append(replace(call, started_s=began_s, ended_s=ended_s))
    return RankRecord(
        outcome.rank,
        outcome.status,
        duration_s=outcome.duration_s or 0.1,
        started_s=started_s,
        exit_code=outcome.exit_code,
        peak_memory=180 << 20,
        error=outcome.error.traceback if outcome.error else "",
        stack=outcome.stack,
        output=outcome.output,
        log=outcome.log,
        pid=4000 + outcome.rank,
        calls=tuple(collectives),
    )


def distributed(test_id: str, *outcomes: RankOutcome, at_s: float, worker: str = "w1") -> TestRecord:
    """The record of a multi-rank test, made from the outcomes of its ranks."""
    merged: TestOutcome = merge(outcomes)
    rerun = f"python run_tests.py --seed 7 {test_id}"
    bad = merged.status is not Status.PASSED
    return TestRecord(
        test_id,
        merged.status,
        duration_s=merged.duration_s or 0.2,
        started_at=BEGAN_AT + at_s,
        started_s=BEGAN_S + at_s,
        worker=worker,
        seed=7,
        world_size=len(outcomes),
        mode="fresh",
        reason=merged.reason,
        details=failure_text(test_id, merged, rerun=rerun, seed=7) if bad else "",
        file="suites/c10d/test_sum.py" if bad else "",
        line=19 if bad else 0,
        ranks=tuple(rank_record(o, BEGAN_S + at_s + 0.02) for o in outcomes),
    )


def single(name: str, status: Status, at_s: float, **fields: object) -> TestRecord:
    """The record of a single-process test."""
    return TestRecord(
        name,
        status,
        started_at=BEGAN_AT + at_s,
        started_s=BEGAN_S + at_s,
        worker="w2",
        **{"duration_s": 0.2, **fields},  # type: ignore[arg-type]  # a table's values are of any kind
    )


def records() -> list[TestRecord]:
    """Records with every kind of result, in the order in which the tests finished."""
    good = tuple(RankOutcome(r, Status.PASSED, calls=waiting(r).calls[:4]) for r in range(2))
    crash = RankOutcome(1, Status.CRASHED, exit_code=-11, output="Fatal Python error: Segmentation fault\n")
    hang = tuple(
        waiting(r, "broadcast" if r == 1 else "all_reduce", status=Status.TIMED_OUT) for r in range(4)
    )
    subtests = (
        SubtestRecord("(dtype='f32')", Status.FAILED, "Traceback ...\nAssertionError: 1 != 2\n", (0, 1)),
        SubtestRecord("(dtype='f64')", Status.SKIPPED, "no f64"),
    )
    flaky = "suites.c10d.test_stores.StoreTest.test_wait"
    return [
        distributed("suites.c10d.test_sum.SumTest.test_ok", *good, at_s=0.1),
        single("suites.aot.test_export.ExportTest.test_alias", Status.PASSED, 0.1, output="not shown"),
        distributed(
            "suites.c10d.test_sum.SumTest.test_sum", waiting(0), failing(1), waiting(2), waiting(3), at_s=0.4
        ),
        single("suites.aot.test_export.ExportTest.test_gpu", Status.SKIPPED, 0.4, reason="needs 1 GPU"),
        distributed(
            "suites.c10d.test_sum.SumTest.test_crash", failing(0, error=LOST_PEER), crash, at_s=0.9
        ),
        single(
            flaky,
            Status.ERROR,
            0.7,
            details='Traceback (most recent call last):\n  File "t.py", line 3, in test_wait\nKeyError: 1\n',
            reason="KeyError: 1",
            file="suites/c10d/test_stores.py",
            line=3,
        ),
        single("suites.aot.test_export.ExportTest.test_dtypes", Status.FAILED, 1.0, subtests=subtests,
               subtests_run=4, details="sub-tests failed", reason="1 of 4 sub-tests failed"),
        distributed("suites.c10d.test_sum.SumTest.test_hang", *hang, at_s=1.2),
        single(flaky, Status.PASSED, 1.6, attempt=2, flaky=True),
        single("suites.aot.test_export.ExportTest.test_todo", Status.XFAILED, 1.9),
        single("suites.aot.test_export.ExportTest.test_fixed", Status.XPASSED, 2.1),
        single("suites.aot.test_export.ExportTest.test_nasty[<&\x00>]", Status.FAILED, 2.3, details=NASTY,
               output=NASTY, reason=NASTY, warnings=(NASTY,)),
    ]  # fmt: skip


def info(**fields: object) -> RunInfo:
    """The run as reporters know it before the first test."""
    values = {
        "argv": ("c10d", "aot"),
        "seed": 7,
        "jobs": 2,
        "total": 12,
        "started_at": BEGAN_AT,
        "started_s": BEGAN_S,
        "hostname": "builder",
        "python": "3.11.7",
        "torch": "2.13.0",
        "platform": "Linux-x86_64",
        "expected_s": {r.id: 0.2 for r in records()},
    }
    return RunInfo(**{**values, **fields})  # type: ignore[arg-type]  # as above


def summary(some: list[TestRecord] | None = None) -> Summary:
    """The summary of the run; one selected test did not run."""
    done = records() if some is None else some
    return summarise(
        done,
        exit_code=1,
        duration_s=2.6,
        selected=[*(r.id for r in done), "suites.aot.test_export.ExportTest.test_last"],
        messages=["suites/timings.json is broken: line 3"],
        command="python run_tests.py --seed 7",
    )


def started(record: TestRecord) -> TestStarted:
    """The event that began the attempt of this record."""
    return TestStarted(
        record.id, record.worker, record.started_s, record.world_size, record.attempt, record.repeat
    )
