"""Tests the order in which cells are measured, on contenders that only log what they are asked."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from typing import cast

from tools.bench.kinds import MeasureError
from tools.bench.remote import Remote
from tools.bench.series import Cell, Series
from tools.bench.session import BenchPlan, run


class _Noted:
    """A contender that answers at once and adds a line to ``log`` for each event."""

    def __init__(self, name: str, log: list[str], kinds: Sequence[str] = ("test", "memory")) -> None:
        self.name = name
        self.kinds = kinds
        self._log = log

    def measure(self, kind: str, world_size: int) -> float:
        """Returns the world size; the contender called ``broken`` always raises."""
        self._log.append(f"{self.name} {kind} {world_size}")
        if self.name == "broken":
            raise MeasureError("lost")
        return float(world_size)

    def __enter__(self) -> _Noted:
        self._log.append(f"{self.name} starts")
        return self

    def __exit__(self, *_: object) -> None:
        self._log.append(f"{self.name} ends")


class Order(unittest.TestCase):
    """The order of measurements in ``run``."""

    def _run(self, plan: BenchPlan) -> tuple[list[str], dict[Cell, Series]]:
        log: list[str] = []
        measured: dict[Cell, Series] = {}
        run(plan, measured, lambda cell, series: None, lambda name: cast(Remote, _Noted(name, log)))
        return log, measured

    def test_contenders_take_turns_at_each_size(self) -> None:
        """In every round the contenders take turns at each world size."""
        log, measured = self._run(BenchPlan(("a", "b"), ("test",), (2, 4), rounds=2, budget_s=99.0))
        one_round = ["a test 2", "b test 2", "a test 4", "b test 4"]
        self.assertEqual(log[:10], ["a starts", "b starts", *one_round, *one_round])
        self.assertEqual(measured[Cell("test", 4, "b")].values, [4.0, 4.0])

    def test_memory_is_measured_with_nobody_else_there(self) -> None:
        """Memory is measured while no other contender runs, because shared pages would count for less."""
        log, _ = self._run(BenchPlan(("a", "b"), ("memory",), (), rounds=1, budget_s=99.0))
        alone = [
            line
            for name in "ab"
            for line in (f"{name} starts", f"{name} memory 2", f"{name} memory 8", f"{name} ends")
        ]
        self.assertEqual(log[-8:], alone)

    def test_an_error_costs_its_own_cell_only(self) -> None:
        """An error is added to its own cell, and the other cells are measured."""
        _, measured = self._run(BenchPlan(("broken", "b"), ("test",), (2,), rounds=2, budget_s=99.0))
        self.assertEqual(measured[Cell("test", 2, "broken")].errors, ["lost", "lost"])
        self.assertEqual(measured[Cell("test", 2, "b")].values, [2.0, 2.0])

    def test_a_kind_that_a_contender_lacks_has_no_cell(self) -> None:
        """A kind that a contender does not support gets no cell for it."""
        _, measured = self._run(BenchPlan(("a",), ("test", "death-seen"), (2,), rounds=1, budget_s=99.0))
        self.assertEqual(list(measured), [Cell("test", 2, "a")])
