"""The text of a multi-rank failure: cause, what the other ranks did, output, and how to run it again.

In this order: verdict; root cause with its traceback; what the other ranks were doing; stacks of a hang;
output; where the logs are; one command that reproduces the failure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from harness.frames import Frame, main_stack, through_users, traceback_frames, users_frame
from harness.outcomes import (
    ErrorInfo,
    Grouped,
    MergedSubtest,
    RankOutcome,
    Status,
    TestOutcome,
    describe,
    group_errors,
    ranks_text,
)
from harness.report.activity import activities, doing

__all__ = ["debugger_hint", "doing", "failure_text"]

MAX_OUTPUT_LINES = 20
# Lists are cut after so many entries, because more of them seldom help; the logs have them all.
MAX_OTHER_ERRORS = 4
MAX_SUBTESTS = 5
MAX_HEADLINE = 120
MAX_STACKS = 4
MAX_STACK_FRAMES = 16
_UNFINISHED = frozenset({Status.CRASHED, Status.TIMED_OUT, Status.DEADLOCKED, Status.ENDED})


def failure_text(
    test_id: str,
    outcome: TestOutcome,
    *,
    rerun: str,
    seed: int | None,
    max_output_lines: int = MAX_OUTPUT_LINES,
    hints: Sequence[str] = (),
) -> str:
    """The whole text about a multi-rank test that did not pass, without a newline at its end.

    ``rerun`` is the command that runs this test alone ("" leaves the line out). ``seed`` is the seed that the
    test ran with; it is shown where the command does not name it. ``hints`` say what to do.
    Pure; accepts any outcome, also a passed one.
    """
    root = _root(outcome)
    sections = [
        _verdict(test_id, outcome),
        _hosts(outcome),
        _root_cause(outcome, root),
        [f"hint: {hint}" for hint in hints],
        _other_errors(outcome, root),
        _subtests(outcome.subtests),
        _meanwhile(outcome, root),
        _stacks(outcome),
        _output(root, max_output_lines),
        [f"warning: {w}" for w in (*outcome.warnings, *outcome.communication)],
        _logs(outcome, root),
        _reproduce(rerun, seed),
    ]
    return "\n".join(line for section in sections for line in section)


def debugger_hint(outcome: TestOutcome, option: str) -> str:
    """By which value of an option a failed rank, which has ended, gets a debugger the next time."""
    cause = outcome.root_cause
    rank = cause if cause is not None else 0
    first = ", which failed first" if cause is not None else ""
    return f"for a debugger in rank {rank}{first}: {option} {rank}"


def _root(outcome: TestOutcome) -> RankOutcome | None:
    known = (o for o in outcome.ranks if o.rank == outcome.root_cause)
    return next(known, None)


def _verdict(test_id: str, outcome: TestOutcome) -> list[str]:
    size = len(outcome.ranks)
    on = f" (world size {size})" if size else ""
    return [f"{test_id}: {outcome.status.value}{on} after {outcome.duration_s:.2f} s"]


def _hosts(outcome: TestOutcome) -> list[str]:
    """Which ranks were on which host, where they were on several or on another one."""
    by_host: dict[str, list[int]] = defaultdict(list)
    for rank in outcome.ranks:
        if rank.host:
            by_host[rank.host].append(rank.rank)
    return ["hosts: " + ", ".join(f"{ranks_text(r)} on {h}" for h, r in by_host.items())] if by_host else []


def _root_cause(outcome: TestOutcome, root: RankOutcome | None) -> list[str]:
    """The root cause with its traceback, after the outcome's own reason where the two differ."""
    if root is None:
        return [f"cause: {outcome.reason}"] if outcome.reason else []
    lines = []
    if outcome.reason and outcome.reason != describe(root):
        lines.append(f"cause: {outcome.reason}")
    if not lines or root.error is not None:
        lines.append(f"{'at first' if lines else 'cause'}: {_described(outcome, root)}")
    error = root.error if root.error is not None else _error_shown_nowhere(outcome, root)
    return lines + _indented("" if error is None or _said_by(lines[-1:], error) else error.traceback)


def _said_by(lines: Sequence[str], error: ErrorInfo) -> bool:
    """Whether the lines have all that is to be said of an error without frames."""
    return error.traceback.strip() == error.headline and any(error.headline in line for line in lines)


def _error_shown_nowhere(outcome: TestOutcome, root: RankOutcome) -> ErrorInfo | None:
    """The error of the root cause's first failing sub-test that the list of sub-tests does not show.

    That list holds one outcome for each sub-test, which may be that of another rank.
    """
    listed = [m.subtest for m in outcome.subtests]
    return next((s.error for s in root.bad_subtests if s not in listed), None)


def _described(outcome: TestOutcome, root: RankOutcome) -> str:
    """The description of the root cause, with the ranks that have the same traceback or were as late."""
    said = describe(root)
    late = root.status is Status.TIMED_OUT and root.error is None
    same = _as_late(outcome, root) if late else _ranks_of(group_errors(outcome.ranks), root.rank)
    return f"{said} (the same on {ranks_text(same)})" if len(same) > 1 else said


def _as_late(outcome: TestOutcome, root: RankOutcome) -> tuple[int, ...]:
    """The ranks that timed out as ``root`` did: in the same phase, and in a call or not."""

    def lateness(o: RankOutcome) -> object:
        return o.status, o.phase, o.under_way is None, o.error is None

    return tuple(o.rank for o in outcome.ranks if lateness(o) == lateness(root))


def _ranks_of(groups: Sequence[Grouped], rank: int) -> tuple[int, ...]:
    return next((g.ranks for g in groups if rank in g.ranks), (rank,))


def _other_errors(outcome: TestOutcome, root: RankOutcome | None) -> list[str]:
    """One line for each error whose traceback differs from the root cause's; equal lines are joined."""
    shown = set() if root is None else set(_ranks_of(group_errors(outcome.ranks), root.rank))
    alike: dict[str, list[int]] = defaultdict(list)
    for other in sorted(outcome.ranks, key=lambda o: o.order):
        if other.error is not None and other.rank not in shown:
            frame = users_frame(traceback_frames(other.error.traceback))
            where = f" ({frame.place})" if frame else ""
            alike[f"{_cut(other.error.headline)}{where}"].append(other.rank)
    lines = [f"also: {ranks_text(ranks)}: {text}" for text, ranks in alike.items()]
    return _at_most(MAX_OTHER_ERRORS, lines, "errors")


def _subtests(merged: Sequence[MergedSubtest]) -> list[str]:
    """The lines about the failing sub-tests, each with its ranks and its traceback."""
    bad = [m for m in merged if m.subtest.status.bad]
    lines: list[str] = []
    for item in bad[:MAX_SUBTESTS]:
        lines.append(f"sub-test {item.subtest}: {item.subtest.status.value} on {ranks_text(item.ranks)}")
        if item.subtest.error is not None:
            lines += _indented(item.subtest.error.traceback)
    if len(bad) > MAX_SUBTESTS:
        lines.append(f"... and {len(bad) - MAX_SUBTESTS} sub-tests more")
    return lines


def _meanwhile(outcome: TestOutcome, root: RankOutcome | None) -> list[str]:
    """What the ranks without an error were doing."""
    told = {rank for group in group_errors(outcome.ranks) for rank in group.ranks}
    if root is not None and not _says_more_than_its_verdict(root):
        told.add(root.rank)
    others = [o for o in outcome.ranks if o.rank not in told]
    return [f"meanwhile: {activities(others)}"] if others else []


def _says_more_than_its_verdict(root: RankOutcome) -> bool:
    waited = root.status in (Status.TIMED_OUT, Status.DEADLOCKED)
    return waited or (root.status is Status.CRASHED and bool(root.calls))


def _stacks(outcome: TestOutcome) -> list[str]:
    """The stacks of ranks that crashed, timed out, were ended, or were in phase "exit".

    An ended rank whose innermost frame of the user's code is known is left out: ``_meanwhile`` names that.
    """
    groups: dict[tuple[Frame, ...], list[int]] = defaultdict(list)
    for rank in outcome.ranks:
        frames = main_stack(rank.stack)
        placed = users_frame(frames) is not None and rank.status is Status.ENDED
        ended = rank.status in _UNFINISHED or rank.phase == "exit"
        if frames and ended and not placed:
            groups[through_users(frames)].append(rank.rank)
    lines: list[str] = []
    for frames, ranks in list(groups.items())[:MAX_STACKS]:
        lines.append(f"stack of {ranks_text(ranks)}, innermost first:")
        lines += [f'  File "{f.file}", line {f.line}, in {f.function}' for f in frames[:MAX_STACK_FRAMES]]
        if len(frames) > MAX_STACK_FRAMES:
            lines.append(f"  ... and {len(frames) - MAX_STACK_FRAMES} frames more")
    if len(groups) > MAX_STACKS:
        lines.append(f"... and {len(groups) - MAX_STACKS} other stacks")
    return lines


def _output(root: RankOutcome | None, most: int) -> list[str]:
    """The last ``most`` lines that the root cause's rank wrote."""
    text = root.output.rstrip() if root is not None else ""
    if not text or most <= 0 or root is None:
        return []
    lines = text.splitlines()
    cut = f", last {most} of {len(lines)} lines" if len(lines) > most else ""
    return [f"output of rank {root.rank}{cut}:", *(f"  {line}" for line in lines[-most:])]


def _logs(outcome: TestOutcome, root: RankOutcome | None) -> list[str]:
    """The path of the root cause's log, and the ranks whose logs lie beside it."""
    logs = {o.rank: o.log for o in outcome.ranks if o.log}
    if not logs:
        return []
    first = root.rank if root is not None and root.rank in logs else min(logs)
    more = f" (and of {ranks_text(set(logs) - {first})} beside it)" if len(logs) > 1 else ""
    return [f"log of rank {first}: {logs[first]}{more}"]


def _reproduce(rerun: str, seed: int | None) -> list[str]:
    if seed is None or "--seed" in rerun:
        return [f"reproduce: {rerun}"] if rerun else []
    return [f"reproduce: {rerun}   (seed {seed})" if rerun else f"seed: {seed}"]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_HEADLINE else text[: MAX_HEADLINE - 3] + "..."


def _indented(text: str) -> list[str]:
    return [f"  {line}" if line else "" for line in text.rstrip().splitlines()]


def _at_most(most: int, lines: list[str], noun: str) -> list[str]:
    if len(lines) <= most:
        return lines
    return [*lines[:most], f"... and {len(lines) - most} other {noun}"]
