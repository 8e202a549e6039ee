"""Runs the benchmark: measures all cells in turns, so that what disturbs the machine affects all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tools.bench.kinds import KINDS, Kind, MeasureError
from tools.bench.remote import Remote
from tools.bench.series import Cell, Series, too_dear

Progress = Callable[[Cell, Series], None]


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What to measure.

    ``budget_s`` are the seconds that a cell may cost after its first value. If the first value alone costs
    more, larger world sizes are left out.
    """

    contenders: Sequence[str]
    kinds: Sequence[str]
    sizes: Sequence[int]
    rounds: int
    budget_s: float

    def cells(self, contender: str, alone: bool) -> list[Cell]:
        """The contender's cells of the kinds that are measured alone, or of the kinds that are not."""
        kinds = [KINDS[name] for name in self.kinds if KINDS[name].alone is alone]
        return [Cell(kind.name, size, contender) for kind in kinds for size in self._sizes(kind)]

    def _sizes(self, kind: Kind) -> Sequence[int]:
        return kind.sizes or self.sizes


def run(
    plan: BenchPlan, measured: dict[Cell, Series], progress: Progress, start: Callable[[str], Remote] = Remote
) -> None:
    """Measures everything in the plan and adds it to ``measured``, value by value.

    An interruption leaves what was measured so far. An error is added to the series of its cell.
    """
    with ExitStack() as stack:
        remotes = [stack.enter_context(start(name)) for name in plan.contenders]
        _measure(remotes, plan, False, measured, progress)
    for name in plan.contenders:
        with start(name) as remote:
            _measure([remote], plan, True, measured, progress)


def _measure(
    remotes: Sequence[Remote], plan: BenchPlan, alone: bool, measured: dict[Cell, Series], progress: Progress
) -> None:
    """Measures all cells in rounds; in a round the contenders take turns at each kind and world size."""
    cells = [
        (remote, cell)
        for remote in remotes
        for cell in plan.cells(remote.name, alone)
        if cell.kind in remote.kinds
    ]
    cells.sort(key=lambda pair: (plan.kinds.index(pair[1].kind), pair[1].world_size))
    for _, cell in cells:
        measured[cell] = Series()
    for _ in range(plan.rounds):
        for remote, cell in cells:
            if too_dear(measured, cell, plan.budget_s):
                continue
            if measured[cell].wants(plan.rounds, plan.budget_s):
                _once(remote, cell, measured[cell])
                progress(cell, measured[cell])


def _once(remote: Remote, cell: Cell, series: Series) -> None:
    started = time.monotonic()
    try:
        series.values.append(remote.measure(cell.kind, cell.world_size))
    except MeasureError as error:
        series.errors.append(str(error))
    series.spent_s += time.monotonic() - started
