"""The text of a look: each test that runs, and where each of its ranks is. Pure but for ``taken``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from harness.communication.analysis.wait_graph import RankView, Waiting, waits_now
from harness.communication_call import under_way
from harness.frames import Frame
from harness.look.processes import below
from harness.look.ranks import SeenRank, SeenSet, of_process, seen
from harness.look.stacks import Stacks
from harness.look.stacks import of_process as stacks_of
from harness.outcomes import ranks_text

# The names of threads that are ranks.
_RANK = re.compile(r"rank \d+")
# The most frames of a stack that are shown, from the innermost: a recursion has thousands.
MOST_FRAMES = 12
# The most letters of a name of C++ that are shown.
MOST_LETTERS = 80
# The most sets of alike ranks that are shown of a test.
MOST_SIDES = 16


@dataclass(frozen=True, slots=True)
class SeenTest:
    """A test that runs: its process (None: it is not known yet), and when it began on the monotonic clock."""

    id: str
    pid: int | None
    began_s: float
    worker: str = ""


def taken(pid: int, tests: Sequence[SeenTest] | None = None, *, native: bool = False) -> list[str]:
    """The lines of a look at the processes below one. UsageError where there is no such process.

    ``tests`` are those that run, where that is known; else what has ranks is shown, and the process itself.
    """
    now_s = monotonic()
    sets = seen(below(pid))
    if tests is None:
        tests = [SeenTest("", each, now_s) for each in dict.fromkeys((*(s.process for s in sets), pid))]
    shown = [(test, list(of_process(sets, test.pid or 0))) for test in tests]
    processes = dict.fromkeys(
        process
        for test, own in shown
        for process in ([r.pid for s in own for r in s.ranks] if own else [test.pid])
        if process is not None
    )
    stacks = {process: stacks_of(process, native=native) for process in processes}
    lines = [line for test, own in shown for line in test_lines(test, own, stacks, now_s, native=native)]
    return [*lines, *dict.fromkeys(each.why for each in stacks.values() if each.why)]


def test_lines(
    test: SeenTest,
    sets: Sequence[SeenSet],
    stacks: Mapping[int, Stacks],
    now_s: float,
    *,
    native: bool = False,
) -> Iterator[str]:
    """The lines about one test; ``stacks`` are those of processes by their ids."""
    for each in sets:
        began = [rank.began_s for rank in each.ranks if rank.began_s is not None]
        known = SeenTest(test.id or each.test, test.pid, min(began, default=now_s), test.worker)
        yield _head(known if not test.id else test, now_s, len(each.ranks))
        yield from rank_lines(each, stacks, now_s, native=native)
    if not sets:
        yield _head(test, now_s, 0)
        found = stacks.get(test.pid) if test.pid is not None else None
        yield from _without_logs(found or Stacks(), native)


def _without_logs(stacks: Stacks, native: bool) -> Iterator[str]:
    """The stack of a process of which no rank has a log that can be read: its rank threads, or its own."""
    ranks = {name: frames for name, frames in sorted(stacks.threads.items()) if _RANK.fullmatch(name)}
    for name, frames in ranks.items():
        yield f"  {name}: a thread"
        yield from _frame_lines(_shown(frames, native))
    if not ranks:
        yield from _frame_lines(_shown(stacks.main, native))


def _head(test: SeenTest, now_s: float, ranks: int) -> str:
    who = [f"worker {test.worker}"] if test.worker else []
    who += [f"process {test.pid}"] if test.pid is not None else []
    who += [f"{ranks} rank{'s' if ranks > 1 else ''}"] if ranks else []
    for_s = f" for {now_s - test.began_s:.1f} s" if test.began_s < now_s else ""
    return f"{test.id or ('a test' if ranks else 'no ranks')}{for_s} ({', '.join(who)})"


def rank_lines(
    ranks: SeenSet, stacks: Mapping[int, Stacks], now_s: float, *, native: bool = False
) -> Iterator[str]:
    """The lines about the ranks of a test; ranks that do the same at the same place are told together."""
    waiting = waits_now([RankView(r.rank, r.calls, settled=r.ended) for r in ranks.ranks])
    sides: dict[tuple[str, str, tuple[Frame, ...]], list[tuple[int, float]]] = defaultdict(list)
    for rank in ranks.ranks:
        before, since_s, after = words(rank, waiting.get(rank.rank))
        frames = _shown(stacks.get(rank.pid or 0, Stacks()).main, native)
        sides[before, after, frames].append((rank.rank, since_s if since_s is not None else now_s))
    for (before, after, frames), members in list(sides.items())[:MOST_SIDES]:
        for_s = now_s - min(since_s for _, since_s in members)
        time = f" for {for_s:.1f} s" if for_s > 0 else ""
        yield f"  {ranks_text(rank for rank, _ in members)}: {before}{time}{after}"
        yield from _frame_lines(frames)
    rest = [rank for members in list(sides.values())[MOST_SIDES:] for rank, _ in members]
    if rest:
        yield f"  ... and {ranks_text(rest)}"


def words(rank: SeenRank, waiting: Waiting | None) -> tuple[str, float | None, str]:
    """What a rank does, since when (None: that is not known), and what else is to say of it."""
    if rank.began_s is None:
        return "not in its test yet", None, ""
    if rank.ended:
        return "at the end of its test", None, ""
    inside = under_way(rank.calls)
    if waiting is not None:
        call = waiting.call
        others = f", for {ranks_text(waiting.waits_for)}" if waiting.waits_for else ""
        return f"waiting in {call}", call.waiting_s or call.started_s, f"{call.at}{others}"
    if inside is not None:
        return f"in {inside}", inside.waiting_s or inside.started_s, inside.at
    last = next((call for call in reversed(rank.calls) if call.ended_s is not None), None)
    if last is None:
        return "in no communication so far", rank.began_s, ""
    return "in no communication", last.ended_s, f", since {last}{last.at}"


def _shown(frames: Sequence[Frame], native: bool) -> tuple[Frame, ...]:
    """The user's frames and the innermost of all but the harness's; with ``native`` all within the user's."""
    users = [frame for frame in frames if frame.line and frame.users and not frame.file.startswith("<")]
    if native:
        outermost = frames.index(users[-1]) if users else len(frames)
        return tuple(frames[: outermost + 1][:MOST_FRAMES])
    inner = [frame for frame in frames if not frame.harness][:1]
    return tuple([*(frame for frame in inner if frame not in users), *users][:MOST_FRAMES])


def _frame_lines(frames: Sequence[Frame]) -> Iterator[str]:
    return (f"      {_place(frame)}" for frame in frames)


def _place(frame: Frame) -> str:
    """The frame in short; a frame of C++ has no line, and a name that may fill a page."""
    return frame.place if frame.line else f"{frame.function[:MOST_LETTERS]} in {frame.file}"
