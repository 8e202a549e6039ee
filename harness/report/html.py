"""``report.html``: the run as one self-contained page, which needs no other file and no network.

Python provides the data (``page_data``); the page's own script filters, sorts and draws it, a screenful at a
time, because browsers are slow with 10,000 rows at once.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.outcomes import exit_text
from harness.record import RankRecord, SubtestRecord, TestRecord
from harness.report.base import QuietReporter, RunInfo
from harness.report.communication_layout import lanes
from harness.report.communication_picture import picture_html
from harness.report.files import write_whole
from harness.report.naming import parse_id
from harness.report.summary import Attempts, Summary
from harness.report.text import clock_text, count, visible, why

_TEMPLATES = Path(__file__).parent / "templates"
# The page shows so much of a rank's output, from its end; the rank's log file has all of it.
MAX_OUTPUT_CHARACTERS = 20_000
# A picture has some tens of thousands of characters: the first failures have one, so many together.
MAX_PICTURES_CHARACTERS = 5_000_000


class HtmlReporter(QuietReporter):
    """Writes the file when the run is over."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def finish(self, summary: Summary) -> None:
        """Writes every test of ``summary``."""
        write_whole(self._path, html_text(self.info, summary))


def html_text(info: RunInfo, summary: Summary) -> str:
    """The file's content; pure but for reading the templates."""
    import jinja2

    loader = jinja2.FileSystemLoader(_TEMPLATES)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    # Only "<" could end the script element that holds the data; JSON may write it as an escape.
    data = json.dumps(page_data(info, summary), separators=(",", ":")).replace("<", "\\u003c")
    text = environment.get_template("report.html").render(
        title=_title(info),
        facts=_facts(info, summary),
        summary=summary,
        rerun=visible(summary.rerun_command or ""),
        failures=[
            (t.id, t.last.status.value, visible(t.last.details) or why(t.last)) for t in summary.failures
        ],
        data=data,
    )
    return text.rstrip() + "\n"


def page_data(info: RunInfo, summary: Summary) -> dict[str, Any]:
    """The data of the page's script: ``tests``, each with its ``attempts``. Empty fields are left out.

    Times are in seconds since the first attempt of this run. An attempt that a resumed run took over from an
    earlier run has no time.
    """
    now = [r.started_at for r in summary.records if r.started_at >= info.started_at]
    base_s = min(now, default=0.0)
    pictures = _pictures(summary)
    return {
        "tests": [_test(test, base_s, pictures) for test in summary.tests],
        "notRun": [visible(test_id) for test_id in summary.not_run],
        "command": info.command,
    }


def _title(info: RunInfo) -> str:
    shard = f" shard {info.shard_text}" if info.shard else ""
    return f"Test run{shard}" + (f" on {info.hostname}" if info.hostname else "")


def _facts(info: RunInfo, summary: Summary) -> list[str]:
    when = datetime.datetime.fromtimestamp(info.started_at, datetime.timezone.utc)
    facts = [
        when.strftime("%Y-%m-%d %H:%M:%S UTC"),
        f"{count(len(summary.tests), 'test')} in {clock_text(summary.duration_s)}",
        count(info.jobs, "job"),
        f"torch {info.torch}" if info.torch else "",
        f"Python {info.python}" if info.python else "",
        info.platform,
        f"seed {info.seed}" if info.seed is not None else "",
        f"shuffle seed {info.shuffle}" if info.shuffle is not None else "",
        f"{info.resumed} results taken over" if info.resumed else "",
        "interrupted" if summary.interrupted else "",
        summary.asides,
        visible(info.started_as),
    ]
    return [fact for fact in facts if fact]


def _pictures(summary: Summary) -> dict[int, str]:
    """The pictures of the communication of failed attempts, by the ``id`` of the record."""
    found: dict[int, str] = {}
    room = MAX_PICTURES_CHARACTERS
    for record in summary.records:
        if record.ok or len(record.ranks) < 2 or room <= 0:
            continue
        drawn = lanes(record.ranks)
        if drawn is not None:
            found[id(record)] = picture_html(drawn)
            room -= len(found[id(record)])
    return found


def _test(test: Attempts, base_s: float, pictures: Mapping[int, str]) -> dict[str, Any]:
    name = parse_id(test.id)
    return {
        "id": visible(test.id),
        "where": visible(name.classname),
        "name": visible(name.method),
        "suite": visible(name.suite),
        "status": test.last.status.value,
        "seconds": round(test.duration_s, 4),
        "attempts": [_attempt(record, base_s, pictures) for record in test.records],
        **_present({"repeat": test.last.repeat if test.last.repeat > 1 else None, "flaky": test.flaky}),
    }


def _attempt(record: TestRecord, base_s: float, pictures: Mapping[int, str]) -> dict[str, Any]:
    at_s = round(record.started_at - base_s, 4)
    fields = {
        "reason": visible(record.reason),
        "details": visible(record.details),
        "picture": pictures.get(id(record), ""),
        "output": "" if record.ok else _end(record.output),
        "warnings": [visible(w) for w in record.warnings],
        "worldSize": record.world_size,
        "mode": record.mode,
        "seed": record.seed,
        "source": f"{record.file}:{record.line}" if record.file else "",
        "subtests": [_subtest(s) for s in record.subtests],
        "subtestsRun": record.subtests_run,
        "ranks": [_rank(r, ok=record.ok) for r in record.ranks],
    }
    return {
        "status": record.status.value,
        "worker": record.worker,
        "seconds": round(record.duration_s, 4),
        **({"at": at_s} if at_s >= 0 else {}),
        **_present(fields),
    }


def _subtest(subtest: SubtestRecord) -> dict[str, Any]:
    fields = {"details": visible(subtest.details), "ranks": list(subtest.ranks)}
    return {"name": visible(subtest.description), "status": subtest.status.value, **_present(fields)}


def _rank(rank: RankRecord, *, ok: bool) -> dict[str, Any]:
    """The data of one rank; without error, stack, output and collectives where the test passed (``ok``)."""
    fields = {
        "exit": exit_text(rank.exit_code) if rank.exit_code else "",
        "memory": rank.peak_memory,
        "pid": rank.pid,
        "log": rank.log,
    }
    more = {
        "error": visible(rank.error),
        "stack": visible(rank.stack),
        "output": _end(rank.output),
        "collectives": [
            f"{call}"
            + (" did not come back" if call.ended_s is None else f" {call.ended_s - call.started_s:.4f} s")
            for call in rank.calls
        ],
    }
    known = _present({**fields, **({} if ok else more)})
    return {"rank": rank.rank, "status": rank.status.value, "seconds": round(rank.duration_s, 4), **known}


def _end(text: str) -> str:
    shown = visible(text)
    return shown if len(shown) <= MAX_OUTPUT_CHARACTERS else "...\n" + shown[-MAX_OUTPUT_CHARACTERS:]


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [], False, 0)}
