"""``junit.xml``: the run for CI servers, valid under the schema of Jenkins' xUnit plug-in (junit-10.xsd).

* There is one suite for each module, and one test case for each repeat of a test. Suites also have what the
  schema of Ant's JUnit task demands (package, id, host name, time stamp without zone, properties first,
  streams last).
* FAILED and unexpected successes are ``failure``; ERROR, CRASHED, TIMED_OUT and DEADLOCKED are ``error``,
  with the verdict as type.
* A test is one case, whatever its sub-tests do, so that the file counts what the console counts. What failed
  or was skipped in them is in the failure's text and in ``system-out``.
* Cases have ``file`` and ``line``, by which GitLab, CircleCI and others show the source. The schema knows
  neither, and Jenkins' plug-in refuses files with more than it knows: under Jenkins they are left out.
* Reruns follow Maven Surefire: the failed attempts of a test that passed at last are ``flakyFailure`` or
  ``flakyError``; those of a test that failed again are ``rerunFailure`` or ``rerunError``.
* The case's ``system-out`` has one line for each rank, and stacks and output where the test did not pass.
  Warnings are in ``system-err``.
* Tests that were selected but did not run are ``skipped`` of type ``not run``.
"""

from __future__ import annotations

import datetime
import importlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.outcomes import Status, exit_text, ranks_text
from harness.record import RankRecord, SubtestRecord, TestRecord
from harness.report.base import QuietReporter, RunInfo
from harness.report.files import write_whole
from harness.report.naming import parse_id
from harness.report.summary import Attempts, Summary
from harness.report.text import one_line, seconds_text, visible, why

_FAILURES = frozenset({Status.FAILED, Status.XPASSED})
# Characters that XML 1.0 (section 2.2) cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What a name shows as an escape: these, control characters, and a backslash that would begin an escape.
_NOT_IN_NAMES = re.compile(
    "[^\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|\\\\(?=u[0-9a-f]{4})"
)


class JUnitReporter(QuietReporter):
    """Writes the file when the run is over."""

    def __init__(self, path: Path, *, places: bool = True) -> None:
        """``places`` says whether cases have ``file`` and ``line``."""
        super().__init__()
        self._path = path
        self._places = places

    def finish(self, summary: Summary) -> None:
        """Writes every test of ``summary``."""
        write_whole(self._path, junit_text(self.info, summary, places=self._places))


def junit_text(info: RunInfo, summary: Summary, *, places: bool = True) -> str:
    """The file's content, in which cases have ``file`` and ``line`` if ``places``; pure."""
    xunit2 = _library("xunit2")
    root = xunit2.JUnitXml("torch-harness")
    modules: dict[str, list[Attempts]] = {}
    for test in summary.tests:
        modules.setdefault(parse_id(test.id).module, []).append(test)
    absent: dict[str, list[str]] = {}
    for test_id in summary.not_run:
        absent.setdefault(parse_id(test_id).module, []).append(test_id)
    for number, module in enumerate({**modules, **absent}):
        tests = modules.get(module, [])
        suite = _suite(info, module, number, min((t.records[0].started_at for t in tests), default=None))
        cases = [_case_of(test, info.cwd if places else None) for test in tests]
        suite.add_testcases([*cases, *(_absent(test_id) for test_id in absent.get(module, ()))])
        suite.system_out = ""
        suite.system_err = ""
        root.add_testsuite(suite)
    root.update_statistics()
    body: str = root.tostring().decode("utf-8")
    head = "<?xml version='1.0' encoding='utf-8'?>\n"
    return body if body.startswith("<?xml") else head + body + "\n"


def _library(module: str) -> Any:
    """A module of junitparser, imported late because a run needs it only at its end.

    Typed as Any because half of its functions have no types.
    """
    return importlib.import_module(f"junitparser.{module}")


def _suite(info: RunInfo, module: str, number: int, started_at: float | None) -> Any:
    xunit2 = _library("xunit2")
    suite = xunit2.TestSuite(_name(module))
    suite.package = _name(module)
    suite.id = str(number)
    suite.hostname = _clean(info.hostname) or "localhost"
    when = datetime.datetime.fromtimestamp(started_at or info.started_at, datetime.timezone.utc)
    suite.timestamp = when.strftime("%Y-%m-%dT%H:%M:%S")
    properties = {
        "command": info.started_as,
        "seed": info.seed,
        "shuffle": info.shuffle,
        "jobs": info.jobs,
        "shard": info.shard_text,
        "torch": info.torch,
        "python": info.python,
        "platform": info.platform,
    }
    for name, value in properties.items():
        suite.add_property(name, "" if value is None else _clean(str(value)))
    return suite


def _case_of(test: Attempts, base: str | None) -> Any:
    """The test case of a test, with its file as seen from the directory ``base``, where that is not None."""
    record = test.last
    case = _case(record.id, record.repeat, test.duration_s)
    if base is not None and record.file:
        file = os.path.relpath(record.file, base) if base else record.file
        case._elem.set("file", _clean(file))  # junitparser has a name for neither
        case._elem.set("line", str(record.line))
    case.result = _result(record)
    for earlier in test.records[:-1]:
        if not earlier.ok:
            case.add_interim_result(_interim(earlier, flaky=test.ok))
    out = _system_out(record)
    if out:
        case.system_out = out
    if record.warnings:
        case.system_err = _clean("\n".join(record.warnings))
    return case


def _case(test_id: str, repeat: int, seconds: float) -> Any:
    xunit2 = _library("xunit2")
    name = parse_id(test_id)
    again = f" [repeat {repeat}]" if repeat > 1 else ""
    return xunit2.TestCase(_name(f"{name.method}{again}"), _name(name.classname), round(max(0.0, seconds), 3))


def _result(record: TestRecord) -> list[Any]:
    if record.status is Status.SKIPPED:
        return [
            _library("junitparser").Skipped(_clean(one_line(record.reason) or "no reason given"), "skipped")
        ]
    if record.ok:
        return []
    untold = [s for s in record.subtests if s.status.bad and s.description not in record.details]
    texts = [record.details, *(f"{_headline(s)}\n{s.details.rstrip()}" for s in untold)]
    return [_broken(record.status, why(record), "\n\n".join(filter(None, texts)))]


def _broken(status: Status, message: str, text: str) -> Any:
    """A ``failure`` or an ``error`` element, whose type is the verdict."""
    library = _library("junitparser")
    kind = library.Failure if status in _FAILURES else library.Error
    result = kind(_clean(message), status.value)
    result.text = _clean(text)
    return result


def _interim(record: TestRecord, *, flaky: bool) -> Any:
    """The element of a failed attempt that was not the last one."""
    xunit2 = _library("xunit2")
    if record.status in _FAILURES:
        kind = xunit2.FlakyFailure if flaky else xunit2.RerunFailure
    else:
        kind = xunit2.FlakyError if flaky else xunit2.RerunError
    result = kind(_clean(why(record)), record.status.value)
    result.stack_trace = _clean(record.details)
    out = _system_out(record)
    if out:
        result.system_out = out
    return result


def _headline(subtest: SubtestRecord) -> str:
    """One line about a sub-test: ``sub-test (n=1): failed on rank 0: AssertionError: 1 != 2``."""
    on = f" on {ranks_text(subtest.ranks)}" if subtest.ranks else ""
    last = one_line((subtest.details.strip().splitlines() or [""])[-1])
    return f"sub-test {subtest.description}: {subtest.status.value}{on}{': ' if last else ''}{last}"


def _absent(test_id: str) -> Any:
    case = _case(test_id, 1, 0.0)
    case.result = [_library("junitparser").Skipped("the run ended before this test", "not run")]
    return case


def _system_out(record: TestRecord) -> str:
    """One line for each rank; where the test did not pass, also errors, stacks and output."""
    lines = [_rank_line(rank) for rank in record.ranks]
    lines += [_headline(subtest) for subtest in record.subtests]
    if record.status is Status.XFAILED:
        lines.append("failed as expected")
    if not record.ok:
        for rank in record.ranks:
            lines += _titled(f"error of rank {rank.rank}", rank.error)
            lines += _titled(f"stack of rank {rank.rank}", rank.stack)
            lines += _titled(f"output of rank {rank.rank}", rank.output)
        lines += _titled("output", record.output)
    return _clean("\n".join(lines))


def _rank_line(rank: RankRecord) -> str:
    return ": ".join(rank_property(rank))


def rank_property(rank: RankRecord) -> tuple[str, str]:
    """A rank's name and what became of it: ``("rank 1", "passed, 0.1 s, peak 200 MiB, 3 collectives")``."""
    parts = [rank.status.value, seconds_text(rank.duration_s)]
    parts += [exit_text(rank.exit_code)] if rank.exit_code else []
    parts += [f"peak {rank.peak_memory / 2**20:.0f} MiB"] if rank.peak_memory else []
    made = rank.calls_made or len(rank.calls)
    parts += [f"{made} collectives"] if made else []
    parts += [f"log {rank.log}"] if rank.log else []
    return f"rank {rank.rank}", _clean(", ".join(parts))


def _titled(title: str, text: str) -> Sequence[str]:
    return [f"---- {title}", text.rstrip()] if text.strip() else ()


def _clean(text: str) -> str:
    """The text with characters that XML 1.0 cannot hold written as escapes (``\\u0000``)."""
    return _NOT_XML.sub(_escape, visible(text))


def _name(text: str) -> str:
    """A name of a test in one line, with escapes as in ``_clean``; different names stay different."""
    return _NOT_IN_NAMES.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
