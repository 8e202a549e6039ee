"""The lines that both consoles print: of the run's start, of each test, of each failure and of the run's end.

All functions here are pure; ``live`` and ``plain`` decide when to print the lines and in which colours.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.bazel_command import is_bazel, with_variable
from harness.outcomes import Status, ranks_text
from harness.record import TestRecord
from harness.report.base import RunInfo
from harness.report.races import Race, races, under
from harness.report.summary import Attempts, Summary
from harness.report.text import VERDICTS, clock_text, count, ranks_suffix, seconds_text, visible, why
from harness.settings import EnvVar

# Lists on the console are cut after so many entries; the reports have them all.
MAX_NOT_RUN = 10
MAX_IDS_PER_SKIP = 3
MAX_OUTPUT_LINES = 40
MAX_SUBTESTS = 5
MAX_WARNINGS = 10
_RULE_WIDTH = 78


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text and its style: "bad", "good", "warn", "head", "dim" or, unstyled, ""."""

    text: str
    style: str = ""


def style_of(status: Status) -> str:
    """The style of a line about a test of this status."""
    if status in (Status.PASSED, Status.XFAILED):
        return "good"
    return "warn" if status is Status.SKIPPED else "bad"


def finished_line(record: TestRecord, done: int, total: int) -> Line:
    """One line about a finished attempt, as ``-v`` shows it."""
    width = len(str(total))
    again = f" attempt {record.attempt}" if record.attempt > 1 else ""
    repeat = f" repeat {record.repeat}" if record.repeat > 1 else ""
    flaky = ", flaky" if record.flaky else ""
    because = "" if record.status is Status.PASSED else f": {why(record)}"
    text = (
        f"[{done:{width}}/{total}] {VERDICTS[record.status]:7} {seconds_text(record.duration_s):>8}  "
        f"{visible(record.id)}{ranks_suffix(record.world_size)}{repeat}{again}{flaky}{because}"
    )
    return Line(text, "warn" if record.flaky else style_of(record.status))


def failure_lines(record: TestRecord, info: RunInfo) -> list[Line]:
    """All lines about one attempt that did not pass: verdict, details, output and the command to rerun it."""
    again = f", attempt {record.attempt}" if record.attempt > 1 else ""
    verdict = f"{VERDICTS[record.status]} {visible(record.id)}{ranks_suffix(record.world_size)}{again} "
    lines = [Line(verdict.ljust(_RULE_WIDTH, "-"), "bad")]
    details = visible(record.details.removeprefix(f"{record.id}: ")).rstrip() or why(record)
    lines += [Line(text) for text in details.splitlines()]
    lines += _subtests(record)
    output = visible(record.output).rstrip().splitlines()
    if output and record.output.strip() not in record.details:
        cut = f", last {MAX_OUTPUT_LINES} of {len(output)} lines" if len(output) > MAX_OUTPUT_LINES else ""
        lines += [Line(f"output{cut}:"), *(Line(f"  {text}") for text in output[-MAX_OUTPUT_LINES:])]
    lines += [Line(f"warning: {visible(w)}", "warn") for w in record.warnings if w not in record.details]
    if "reproduce: " not in record.details:
        name = shlex.quote(info.names.get(record.id, record.id))
        lines.append(Line(f"reproduce: {under(info.command, record)}{_seed(record, info)} {visible(name)}"))
    return lines


def _seed(record: TestRecord, info: RunInfo) -> str:
    """The seed of a test as an option, after the run's command; empty where that has it."""
    if record.seed is None or "--seed" in info.command or EnvVar.SEED in info.command:
        return ""
    by_bazel = is_bazel(info.command)
    return f" {with_variable(EnvVar.SEED, record.seed)}" if by_bazel else f" --seed {record.seed}"


def _subtests(record: TestRecord) -> list[Line]:
    """The failing sub-tests that the record's details do not mention."""
    untold = [s for s in record.subtests if s.status.bad and s.description not in record.details]
    lines = []
    for subtest in untold[:MAX_SUBTESTS]:
        on = f" on {ranks_text(subtest.ranks)}" if subtest.ranks else ""
        lines.append(Line(f"sub-test {visible(subtest.description)}: {subtest.status.value}{on}", "bad"))
        lines += [Line(f"  {text}") for text in visible(subtest.details).rstrip().splitlines()]
    if len(untold) > MAX_SUBTESTS:
        lines.append(Line(f"... and {len(untold) - MAX_SUBTESTS} sub-tests more", "bad"))
    return lines


def opening_line(info: RunInfo) -> Line:
    """The first line of a run: how many tests run, in how many jobs, with which seed and versions."""
    parts = [count(info.total, "test"), count(info.jobs, "job")]
    parts += [f"shard {info.shard_text}"] if info.shard else []
    parts += [f"seed {info.seed}"] if info.seed is not None else []
    parts += [f"shuffle seed {info.shuffle}"] if info.shuffle is not None else []
    parts += [f"torch {info.torch}"] if info.torch else []
    parts += [f"Python {info.python}"] if info.python else []
    parts += [f"{count(info.resumed, 'result')} taken over"] if info.resumed else []
    return Line(", ".join(parts), "head")


def closing_lines(summary: Summary, info: RunInfo, *, durations: int, verbosity: int) -> list[Line]:
    """The lines at the end of a run; the last one is exactly ``summary.line``.

    ``durations`` is the number of slowest tests to list. A ``verbosity`` below 0 leaves out everything except
    the failures, the command that reruns them and the counts; above 0 it lists the ids of all skipped tests.
    """
    lines = _section("failed", [_failure(t) for t in summary.failures])
    lines += _section("races", [_race(race, info) for race in races(summary.records)])
    if verbosity >= 0:
        lines += _section("flaky", [_flaky(t) for t in summary.flaky])
        lines += _section("in quarantine", [_quarantined(t) for t in summary.quarantined])
        lines += _section("skipped", _skips(summary, verbosity), summary.skipped)
        slowest = [_slow(t) for t in summary.slowest(durations)]
        lines += _section(f"slowest {len(slowest)}", slowest, None)
        lines += _section("warnings", _warnings(summary, verbosity), len(summary.warnings))
        lines += _section("notices", [Line(f"  {visible(m)}", "warn") for m in summary.messages])
    lines += _section("not run", _cut(summary.not_run, MAX_NOT_RUN), len(summary.not_run))
    lines += _pointers(summary, info)
    asides = f": {summary.asides}" if summary.asides else ""
    tests = count(len(summary.tests), "test")
    lines.append(Line(f"{tests} in {clock_text(summary.duration_s)}{asides}"))
    good = summary.exit_code == 0 and not summary.failed
    return [*lines, Line(summary.line, "good" if good else "bad")]


def _section(name: str, lines: Sequence[Line], number: int | None = -1) -> list[Line]:
    """The lines under a heading that counts them; no heading where there are no lines.

    ``number`` is shown in place of the number of lines, and None shows none.
    """
    if not lines:
        return []
    shown = "" if number is None else f" ({len(lines) if number == -1 else number})"
    return [Line(f"-- {name}{shown} ".ljust(_RULE_WIDTH, "-"), "head"), *lines]


def _failure(test: Attempts) -> Line:
    record = test.last
    return Line(f"  {VERDICTS[record.status]:7} {visible(test.id)}: {why(record)}", "bad")


def _race(race: Race, info: RunInfo) -> Line:
    name = visible(info.names.get(race.id, race.id))
    seeds = f"passes with --chaos {race.passes[0]} and fails with --chaos {race.fails[0]}"
    return Line(f"  {name}: {seeds}, so its verdict depends on when ranks come", "bad")


def _flaky(test: Attempts) -> Line:
    before = "; ".join(f"{VERDICTS[r.status]}: {why(r)}" for r in test.failed) or "failed before"
    return Line(f"  {visible(test.id)}: passed on attempt {test.last.attempt} after {before}", "warn")


def _quarantined(test: Attempts) -> Line:
    return Line(f"  {visible(test.id)}: {why(test.last)}", "warn")


def _skips(summary: Summary, verbosity: int) -> list[Line]:
    lines = []
    for reason, ids in summary.skips:
        few = len(ids) <= MAX_IDS_PER_SKIP
        which = f"  ({', '.join(ids)})" if few and len(summary.skips) <= MAX_NOT_RUN else ""
        lines.append(Line(f"  {len(ids):5}  {visible(reason)}{'' if verbosity > 0 else which}"))
        if verbosity > 0:
            lines += [Line(f"           {visible(test_id)}", "dim") for test_id in ids]
    return lines


def _warnings(summary: Summary, verbosity: int) -> list[Line]:
    """A line for each warning, with how many tests gave it; only the most frequent where it is not ``-v``."""
    lines = [Line(f"  {len(ids):5}  {visible(line)}", "warn") for line, ids in summary.warnings]
    more = len(lines) - MAX_WARNINGS
    if verbosity > 0 or more <= 0:
        return lines
    return [*lines[:MAX_WARNINGS], Line(f"  ... and {more} more, in junit.xml and with -v")]


def _slow(test: Attempts) -> Line:
    return Line(
        f"  {seconds_text(test.duration_s):>9}  {visible(test.id)}{ranks_suffix(test.last.world_size)}"
    )


def _cut(ids: Iterable[str], most: int) -> list[Line]:
    lines = [Line(f"  {visible(test_id)}") for test_id in ids]
    more = len(lines) - most
    return lines if more <= 0 else [*lines[:most], Line(f"  ... and {more} more")]


def _pointers(summary: Summary, info: RunInfo) -> list[Line]:
    """The commands that resume the run or rerun its failures, and the folder of the reports."""
    lines = []
    if summary.interrupted:
        resume = "" if is_bazel(info.command) else " --resume"  # what Bazel ran leaves nothing to go on with
        lines.append(Line(f"interrupted; go on with: {info.command}{resume}", "bad"))
    if summary.rerun_command:
        lines.append(Line(f"rerun what failed: {visible(summary.rerun_command)}", "bad"))
    if summary.failed and info.same_order:
        lines.append(Line(f"all of it in the same order: {visible(info.same_order)}", "bad"))
    if info.directory is not None:
        lines.append(Line(f"reports and logs: {info.directory}"))
    return lines
