"""``results.jsonl``: one line for each attempt, for scripts and for the next run's timings.

Each line is a JSON object with ``schema`` (3) and ``kind``. The first line describes the run, the last one
its end, and each line between them an attempt:

* ``run``: ``command``, ``argv``, ``seed``, ``shard`` ([i, n] or null), ``jobs``, ``total``, ``started_at``
  (seconds since the epoch), ``hostname``, ``python``, ``torch``, ``platform``, ``resumed``,
  ``shuffle`` (the seed of a random order, or null);
* ``test``: the fields of ``harness.record.TestRecord``, which documents them; of a rank's ``calls`` (of a
  test that did not pass, and with ``--trace`` of each) a list for each field of
  ``harness.communication_call.Call`` that is not always at its default, where ``signature`` has places in
  the lists of ``signatures``;
* ``end``: ``exit_code``, ``interrupted``, ``duration_s``, ``passed``, ``failed``, ``skipped``, ``flaky``
  and ``not_run`` (lists of ids), ``messages``.

Readers skip kinds that they do not know. Within a schema number fields are only ever added.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.record import SCHEMA, dumps
from harness.report.base import QuietReporter, RunInfo
from harness.report.files import write_whole
from harness.report.summary import Summary

_RUN_FIELDS = (
    "command",
    "argv",
    "seed",
    "shard",
    "jobs",
    "total",
    "started_at",
    "hostname",
    "python",
    "torch",
    "platform",
    "resumed",
    "shuffle",
)


class ResultsReporter(QuietReporter):
    """Writes the file when the run is over."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def finish(self, summary: Summary) -> None:
        """Writes every attempt of ``summary``."""
        write_whole(self._path, results_text(self.info, summary))


def results_text(info: RunInfo, summary: Summary) -> str:
    """The file's content; pure."""
    run = {name: getattr(info, name) for name in _RUN_FIELDS}
    end = {
        "exit_code": summary.exit_code,
        "interrupted": summary.interrupted,
        "duration_s": summary.duration_s,
        "passed": summary.passed,
        "failed": summary.failed,
        "skipped": summary.skipped,
        "flaky": [t.id for t in summary.flaky],
        "not_run": list(summary.not_run),
        "messages": list(summary.messages),
    }
    lines = [_line("run", run), *(dumps(r) for r in summary.records), _line("end", end)]
    return "".join(f"{line}\n" for line in lines)


def _line(kind: str, fields: Mapping[str, Any]) -> str:
    return json.dumps({"schema": SCHEMA, "kind": kind, **fields}, ensure_ascii=False, separators=(",", ":"))
