"""Judges measurements against the goals for the fork server and for pooled ranks; a pure decision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.settings import GRACE_S
from tools.bench.kinds import CLASS_START, DEATH_SEEN, DEATH_UNSEEN, KEPT_TEST, TEST
from tools.bench.series import Measured, median, per_added_rank, ratio, sizes
from tools.bench.tables import LIMIT, OURS, UPSTREAM, brief, memory, seconds

OF_BARE = 1.5  # the most times the bare program's time, at each world size
OF_UPSTREAM = 100.0  # how many times faster than upstream at least, at the world sizes of most tests
UPSTREAM_SIZES = (2, 4)
RANK_MB = 25.0
CLASS_START_S = 0.1  # on pooled ranks
KEPT_TEST_S = 0.0005  # on pooled ranks
VERDICT_S = 0.1  # beyond the default grace that the peers get


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal, the measured value as text, and whether the goal was reached."""

    text: str
    shown: str
    reached: bool

    def __str__(self) -> str:
        return f"{'reached' if self.reached else 'MISSED '}  {self.text}: {self.shown}"


def reached(measured: Measured) -> Iterator[Goal]:
    """Yields every goal for which the run has numbers."""
    for size in sizes(measured):
        ours = median(measured, TEST.name, size, OURS)
        of_bare = ratio(ours, median(measured, TEST.name, size, LIMIT))
        if of_bare is not None:
            yield Goal(f"{size} ranks at most {OF_BARE} x bare", f"{of_bare:.2f} x", of_bare <= OF_BARE)
        faster = ratio(median(measured, TEST.name, size, UPSTREAM), ours)
        if faster is not None and size in UPSTREAM_SIZES:
            text = f"{size} ranks at least {OF_UPSTREAM:g} x faster than upstream"
            yield Goal(text, f"{faster:.0f} x", faster >= OF_UPSTREAM)
    added = per_added_rank(measured, OURS)
    if added is not None:
        yield Goal(f"at most {RANK_MB:g} MB an added rank", memory(added), added <= RANK_MB)
    yield from _kept(measured)
    for kind in (DEATH_SEEN, DEATH_UNSEEN):
        for size in sizes(measured, kind.name):
            late = median(measured, kind.name, size, OURS)
            if late is not None:
                text = (
                    f"{kind.title}: verdict within the grace of {seconds(GRACE_S)} and {seconds(VERDICT_S)}"
                )
                yield Goal(text, seconds(late), late <= GRACE_S + VERDICT_S)


def _kept(measured: Measured) -> Iterator[Goal]:
    for kind, most in ((CLASS_START, CLASS_START_S), (KEPT_TEST, KEPT_TEST_S)):
        for size in sizes(measured, kind.name):
            value = median(measured, kind.name, size, "pooled")
            if value is not None:
                text = f"pooled, {kind.title}, {size} ranks: at most {brief(most)}"
                yield Goal(text, brief(value), value <= most)
