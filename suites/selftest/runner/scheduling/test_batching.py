"""Tests how tests become batches: one module, one demand and one costly fixture each, and not too long."""

from __future__ import annotations

import unittest
from dataclasses import replace

from hypothesis import strategies as st

from harness.runner.scheduling.batching import LONGEST_S, PARTS_PER_SLOT, SHORTEST_S, Batch, batches
from harness.runner.scheduling.timings import Timings
from harness.runner.scheduling.unit import Demand, Unit, of_id
from suites.selftest.properties import given
from suites.selftest.runner import strategies

plans = strategies.units().flatmap(lambda units: st.tuples(st.just(units), strategies.timings(units)))


def shapes(result: tuple[Batch, ...]) -> list[list[str]]:
    return [[unit.id for unit in item.units] for item in result]


def many(count: int, seconds: float, module: str = "m", **fields: object) -> tuple[list[Unit], Timings]:
    units = [of_id(f"{module}.C.t{n:04}", module, **fields) for n in range(count)]
    return units, Timings({unit.id: seconds for unit in units})


class BatchesTest(unittest.TestCase):
    @given(plans, st.integers(1, 16), st.lists(strategies.demands, min_size=1, max_size=2), st.booleans())
    def test_everything_once_in_order_and_of_a_kind(
        self, plan: tuple[list[Unit], Timings], slots: int, demands: list[Demand], isolate: bool
    ) -> None:
        units = [replace(unit, demand=demands[n % len(demands)]) for n, unit in enumerate(plan[0])]
        result = batches(units, plan[1], slots, isolate=isolate, first_key=7)
        self.assertEqual([item.key for item in result], list(range(7, 7 + len(result))))
        placed = [unit.id for item in result for unit in item.units]
        self.assertEqual(sorted(placed), sorted(unit.id for unit in units))
        places = {unit.id: place for place, unit in enumerate(units)}
        for item in result:
            self.assertEqual(
                {(unit.module, unit.demand) for unit in item.units}, {(item.units[0].module, item.demand)}
            )
            self.assertEqual(
                [unit.id for unit in item.units], sorted((u.id for u in item.units), key=places.__getitem__)
            )
            self.assertTrue(not isolate or len(item.units) == 1)

    def test_variables_apart(self) -> None:
        """Tests for which other variables are set are in another worker."""
        units, known = many(4, 0.01)
        units = [replace(unit, environ=(("A", "1"),)) if n % 2 else unit for n, unit in enumerate(units)]
        found = batches(units, known, 2)
        self.assertEqual([{unit.environ for unit in item.units} for item in found], [{()}, {(("A", "1"),)}])

    def test_a_few_quick_ones_share_a_worker(self) -> None:
        self.assertEqual(len(batches(*many(10, 0.01), 2)), 1)

    def test_many_keep_every_slot_busy(self) -> None:
        result = batches(*many(1600, 0.1), 2)
        self.assertLessEqual(max(item.expected_s for item in result), 160 / 2 / PARTS_PER_SLOT + 1e-6)
        self.assertGreaterEqual(len(result), 2 * PARTS_PER_SLOT)

    def test_no_duration_is_not_nothing(self) -> None:
        self.assertGreater(len(batches(*many(5000, 0.0), 1)), 1)

    def test_no_batch_takes_too_long_unless_one_test_does(self) -> None:
        result = batches(*many(100, 60.0), 1)
        self.assertEqual([len(item.units) for item in result], [1] * 100)
        result = batches(*many(10_000, 1.0), 1)
        self.assertLessEqual(max(item.expected_s for item in result), LONGEST_S)

    def test_isolated(self) -> None:
        self.assertEqual(len(batches(*many(10, 0.0), 2, isolate=True)), 10)

    def test_classes_with_a_fixture_are_apart_and_the_others_together(self) -> None:
        units = [
            of_id("m.A.t", "m", fixtures=("m", "m.A")),
            of_id("m.B.t", "m", fixtures=("m",)),
            of_id("m.A.u", "m", fixtures=("m", "m.A")),
            of_id("m.C.t", "m", fixtures=("m",)),
        ]
        self.assertEqual(shapes(batches(units, Timings(), 1)), [["m.A.t", "m.A.u"], ["m.B.t", "m.C.t"]])

    def test_a_dear_fixture_makes_larger_batches_and_counts(self) -> None:
        units, known = many(40, SHORTEST_S / 2, fixtures=("m.C",))
        cheap = batches(units, replace(known, fixtures={"m.C": 0.0}), 8)
        dear = batches(units, replace(known, fixtures={"m.C": 4 * SHORTEST_S}), 8)
        self.assertEqual({len(item.units) for item in cheap}, {2})
        self.assertEqual([len(item.units) for item in dear], [32, 8])
        self.assertAlmostEqual(dear[0].expected_s, 20 * SHORTEST_S)

    def test_a_fixture_of_unknown_cost_keeps_its_tests_together(self) -> None:
        """Of a module as of a class; it can be isolated all the same."""
        units, known = many(40, 1.0, fixtures=("m", "m.C"))
        for fixtures in ({}, {"m": 0.0}, {"m.C": 0.0}):
            with self.subTest(fixtures):
                found = batches(units, replace(known, fixtures=fixtures), 8)
                self.assertEqual([len(item.units) for item in found], [40])
        self.assertEqual(len(batches(units, known, 8, isolate=True)), 40)

    def test_a_warm_up_makes_larger_batches(self) -> None:
        """Each batch of a module would pay for it again."""
        units, known = many(40, SHORTEST_S / 2)
        self.assertEqual({len(item.units) for item in batches(units, known, 8)}, {2})
        warm = replace(known, fixtures={"warm up m": 4 * SHORTEST_S, "warm up n": 99.0})
        self.assertEqual([len(item.units) for item in batches(units, warm, 8)], [32, 8])

    def test_of_what_nothing_is_known_stays_together(self) -> None:
        """Its warm-up is unknown, too; one recorded test of the module is enough to cut."""
        units, _ = many(40, 1.0)
        self.assertEqual([len(item.units) for item in batches(units, Timings({"n.C.t": 1.0}), 8)], [40])
        self.assertGreater(len(batches(units, Timings({units[0].id: 1.0}), 8)), 1)
        self.assertEqual(len(batches(units, Timings(), 8, isolate=True)), 40)

    def test_what_shares_a_fixture_is_never_parted(self) -> None:
        """Such tests are one batch, in their order, whatever they take of the machine; others are cut."""
        shared, known = many(40, 1.0, shares="m")
        on_ranks = [replace(unit, demand=Demand(ranks=4, cpu_slots=2, memory_mb=7)) for unit in shared[:3]]
        alone = [replace(unit, demand=Demand(accelerators=1, exclusive=True)) for unit in shared[3:4]]
        units = [*on_ranks, *alone, *shared[4:]]
        (result,) = batches(units, known, 8)
        self.assertEqual([unit.id for unit in result.units], [unit.id for unit in units])
        self.assertEqual(result.demand, Demand(4, 2, 1, 7, True))
        self.assertEqual(len(batches(units, known, 8, isolate=True)), 40)
        apart = [replace(unit, shares="") for unit in shared]
        self.assertGreater(len(batches(apart, known, 8)), 1)

    def test_fixtures_of_classes_are_apart(self) -> None:
        units = [of_id(f"m.{case}.{test}", "m", shares=f"m.{case}") for test in "tu" for case in "AB"]
        self.assertEqual(shapes(batches(units, Timings(), 1)), [["m.A.t", "m.A.u"], ["m.B.t", "m.B.u"]])


if __name__ == "__main__":
    unittest.main()
