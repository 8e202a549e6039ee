"""Writes the files of a merged run: journal, reports, recorded times, and the names of the tests that failed.

journal.jsonl                   what ``--resume=OUT`` and ``--last-failed`` go on from
results.jsonl, junit.xml, report.html    as one run would have written them
trace.json                      the same, with worker 1 of shard 2 as ``2.1``, by the hosts' clocks
timings.json                    the seconds of these tests, for ``--timings`` and ``tools/update_timings.py``
impact.json.gz                  the files that tests execute, where the shards ran with ``--record-map``
conformance.json, .html, .md    the cells of all shards, where those have reports about a target
last-failed.txt                 a line for each test that failed, as ``run_tests.py`` takes it; empty for none
"""

from __future__ import annotations

import time
from pathlib import Path

from harness.conformance import reporter
from harness.conformance.document import Conformance
from harness.errors import UsageError
from harness.impact import impact_map
from harness.impact.impact_map import ImpactMap
from harness.merge.merged import Merged
from harness.report.base import RunInfo
from harness.report.files import write_whole
from harness.report.html import html_text
from harness.report.junit import junit_text
from harness.report.results import results_text
from harness.report.summary import Summary
from harness.report.trace import trace_text
from harness.runner import journal
from harness.runner.scheduling import timings as timings_file

TIMINGS = "timings.json"
LAST_FAILED = "last-failed.txt"


def write(
    merged: Merged,
    summary: Summary,
    directory: Path,
    conformance: Conformance | None = None,
    impact: ImpactMap | None = None,
) -> None:
    """Writes all files into the directory, with those about the target where there is a report about one.

    ``impact`` is the map of which files the tests execute, where there is one. UsageError where the files
    cannot be written, or a run is going on there.
    """
    info = merged.info
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _journal(merged, summary, directory)
        for name, text in (
            ("results.jsonl", results_text(info, summary)),
            ("junit.xml", junit_text(info, summary)),
            ("report.html", html_text(info, summary)),
            ("trace.json", trace_text(info, summary)),
            (TIMINGS, timings_file.dumps(timings_file.pooled(map(timings_file.of_record, merged.records)))),
            (LAST_FAILED, _last_failed(info, summary)),
        ):
            write_whole(directory / name, text)
        if conformance is not None:
            reporter.write(conformance, directory)
        if impact is not None:
            impact.write(directory / impact_map.NAME)
    except OSError as error:
        raise UsageError(f"--report-dir {directory} cannot be written: {error.strerror or error}") from None


def _journal(merged: Merged, summary: Summary, directory: Path) -> None:
    with journal.create(directory) as made:
        made.begin(merged.info)
        for record in merged.records:
            made.add(record)
        made.end(summary.exit_code, time.time(), summary.messages)
        if made.failure is not None:
            raise UsageError(made.failure)


def _last_failed(info: RunInfo, summary: Summary) -> str:
    return "".join(f"{info.names.get(test_id, test_id)}\n" for test_id in summary.failed_ids)
