"""Tests that shards are disjoint, complete, balanced and independent of the order of discovery."""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
import unittest
from collections.abc import Iterable, Iterator, Mapping, Sequence
from unittest import mock

from hypothesis import strategies as st

from harness.errors import UsageError
from harness.runner.scheduling import timings
from harness.runner.scheduling.timings import Timings
from harness.runner.scheduling.unit import Unit, of_id
from harness.runner.selection.shard_assignment import LEAST_US, Shard, assign, filter_suite
from suites.selftest.properties import given
from suites.selftest.runner import strategies

plans = strategies.units().flatmap(lambda units: st.tuples(st.just(units), strategies.timings(units)))
totals = st.integers(1, 20)
# Seconds: each of at most fifty entries is rounded to a microsecond.
ROUNDING_S = 1e-4


def ids(shards: list[tuple[Unit, ...]]) -> list[list[str]]:
    return [[unit.id for unit in shard] for shard in shards]


def predicted(shards: Iterable[Sequence[Unit]], known: Timings) -> list[float]:
    """The seconds that each shard is expected to take: its tests, and once each fixture that they need."""
    loads = []
    for shard in shards:
        tests = known.estimates(unit.id for unit in shard).values()
        fixtures = {key for unit in shard for key in known.fixtures_of(unit.id)}
        tests_s = sum(max(LEAST_US / 1e6, seconds) for seconds in tests)
        loads.append(tests_s + sum(known.fixtures[key] for key in fixtures))
    return loads


class AssignTest(unittest.TestCase):
    @given(plans, totals)
    def test_disjoint_and_complete(self, plan: tuple[list[Unit], Timings], total: int) -> None:
        units, known = plan
        shards = assign(units, known, total)
        self.assertEqual(len(shards), total)
        self.assertEqual(sorted(i for shard in ids(shards) for i in shard), sorted(unit.id for unit in units))

    @given(plans, totals, st.randoms(use_true_random=False))
    def test_order_does_not_matter(
        self, plan: tuple[list[Unit], Timings], total: int, chance: random.Random
    ) -> None:
        units, known = plan
        shuffled = chance.sample(units, len(units))
        self.assertEqual(ids(assign(shuffled, known, total)), ids(assign(units, known, total)))

    @given(plans, totals)
    def test_only_ids_and_timings_matter(self, plan: tuple[list[Unit], Timings], total: int) -> None:
        units, known = plan
        elsewhere = [of_id(unit.id, "loaded.elsewhere", slow=True, expected_s=9.0) for unit in units]
        self.assertEqual(ids(assign(elsewhere, known, total)), ids(assign(units, known, total)))

    @given(plans, totals)
    def test_no_shard_exceeds_the_mean_by_more_than_one_unit(
        self, plan: tuple[list[Unit], Timings], total: int
    ) -> None:
        units, known = plan[0], Timings(plan[1].tests)
        loads = predicted(assign(units, known, total), known)
        largest = max((predicted([(unit,)], known)[0] for unit in units), default=0.0)
        self.assertLessEqual(max(loads), sum(loads) / total + (1 - 1 / total) * largest + ROUNDING_S)

    @given(plans, totals)
    def test_fixtures_cost_at_most_what_they_cost_everywhere(
        self, plan: tuple[list[Unit], Timings], total: int
    ) -> None:
        units, known = plan
        loads = predicted(assign(units, known, total), known)
        largest = max((predicted([(unit,)], known)[0] for unit in units), default=0.0)
        tests_s = sum(predicted([units], Timings(known.tests)))
        self.assertLessEqual(
            max(loads), tests_s / total + sum(known.fixtures.values()) + largest + ROUNDING_S
        )

    @given(st.lists(st.floats(0.001, 100), max_size=7), st.integers(1, 3))
    def test_within_a_third_of_the_best(self, durations: list[float], total: int) -> None:
        known = Timings({f"m.C.t{n}": seconds for n, seconds in enumerate(durations)})
        units = [of_id(test_id, "m") for test_id in known.tests]
        best = min(
            max(
                sum(s for s, shard in zip(durations, choice, strict=True) if shard == n) for n in range(total)
            )
            for choice in itertools.product(range(total), repeat=len(durations))
        )
        loads = predicted(assign(units, known, total), known)
        self.assertLessEqual(max(loads), (4 / 3 - 1 / (3 * total)) * best + ROUNDING_S)

    def test_realistic_times_balance_within_five_percent(self) -> None:
        for seed in range(5):
            chance = random.Random(seed)
            known = Timings({f"suites.m{n % 40}.C.t{n}": chance.lognormvariate(-2, 1.3) for n in range(1500)})
            units = [of_id(test_id, test_id.rsplit(".", 2)[0]) for test_id in known.tests]
            for total in range(2, 17):
                with self.subTest(seed=seed, total=total):
                    loads = predicted(assign(units, known, total), known)
                    mean = sum(loads) / total
                    self.assertLessEqual(max(loads), max(1.05 * mean, max(known.tests.values())))

    def test_realistic_times_with_fixtures(self) -> None:
        chance = random.Random(7)
        known = Timings(
            {f"suites.m{n % 20}.C{n % 60}.t{n}": chance.lognormvariate(-2, 1.3) for n in range(1500)},
            {f"import suites.m{n}": chance.uniform(0.05, 0.5) for n in range(20)}
            | {f"suites.m{n % 20}.C{n}": chance.uniform(0.02, 0.3) for n in range(0, 60, 3)},
        )
        units = [of_id(test_id, test_id.rsplit(".", 2)[0]) for test_id in known.tests]
        for total in range(2, 17):
            with self.subTest(total=total):
                loads = predicted(assign(units, known, total), known)
                self.assertLessEqual(max(loads) * total / sum(loads), 1.05)

    def test_longest_first(self) -> None:
        known = Timings({"m.C.a": 5, "m.C.b": 4, "m.C.c": 3, "m.C.d": 3, "m.C.e": 3})
        units = [of_id(test_id, "m") for test_id in known.tests]
        self.assertEqual(ids(assign(units, known, 2)), [["m.C.a", "m.C.d"], ["m.C.b", "m.C.c", "m.C.e"]])

    def test_a_dear_fixture_is_paid_once_as_long_as_that_is_quicker(self) -> None:
        known = Timings({f"{m}.C.t{n}": 1 for m in "ab" for n in range(4)}, {"a.C": 50, "import b": 50})
        units = [of_id(test_id, test_id[0]) for test_id in known.tests]
        shards = assign(units, known, 2)
        self.assertEqual([{unit.module for unit in shard} for shard in shards], [{"a"}, {"b"}])
        self.assertEqual(predicted(shards, known), [54, 54])

    def test_tests_of_no_duration_are_spread(self) -> None:
        units = [of_id(f"m.C.t{n}", "m") for n in range(100)]
        shards = assign(units, Timings({unit.id: 0.0 for unit in units}), 4)
        self.assertEqual([len(shard) for shard in shards], [25] * 4)

    def test_more_shards_than_tests(self) -> None:
        self.assertEqual(sorted(map(len, assign([of_id("m.C.t", "m")], Timings(), 3))), [0, 0, 1])
        self.assertEqual(assign([], Timings(), 2), [(), ()])


class Sample(unittest.TestCase):
    """The tests that the filtered suites are made of; they do not run here."""

    def test_a(self) -> None: ...
    def test_b(self) -> None: ...
    def test_c(self) -> None: ...
    def test_d(self) -> None: ...
    def test_slow_e(self) -> None: ...
    def test_slow_f(self) -> None: ...


NAMES = ("test_a", "test_b", "test_c", "test_d", "test_slow_e", "test_slow_f")


def load_tests(loader: unittest.TestLoader, tests: unittest.TestSuite, pattern: object) -> unittest.TestSuite:
    """Leaves out ``Sample``, whose tests check nothing."""
    return unittest.TestSuite(t for t in flat(tests) if not isinstance(t, Sample))


def is_slow(test: unittest.TestCase) -> bool:
    return "slow" in test.id()


def flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flat(item)
        else:
            yield item


def sample() -> unittest.TestSuite:
    return unittest.TestSuite(
        [unittest.TestSuite(map(Sample, NAMES[:3])), unittest.TestSuite(map(Sample, NAMES[3:]))]
    )


class FilterSuiteTest(unittest.TestCase):
    known = Timings({f"{__name__}.Sample.{name}": n for n, name in enumerate(NAMES, 1)})

    def parts(self, total: int, known: Timings, **more: str) -> list[list[str]]:
        return [
            [test.id() for test in flat(filter_suite(sample(), self.environ(n, total, more), known, is_slow))]
            for n in range(1, total + 1)
        ]

    def environ(self, number: int, total: int, more: Mapping[str, str]) -> dict[str, str]:
        return {"SHARD_NUMBER": str(number), "NUM_TEST_SHARDS": str(total), **more}

    def test_without_variables_the_suite_stays_as_it_is(self) -> None:
        suite = sample()
        self.assertIs(filter_suite(suite, {}), suite)
        self.assertIs(filter_suite(suite, {"CI_NODE_TOTAL": "1"}), suite)

    def test_parts_are_disjoint_complete_and_in_order(self) -> None:
        everything = [test.id() for test in flat(sample())]
        for total in range(1, 9):
            with self.subTest(total=total):
                parts = self.parts(total, self.known)
                self.assertEqual(sorted(i for part in parts for i in part), everything)
                for part in parts:
                    self.assertEqual(part, sorted(part))

    def test_the_parts_are_those_of_the_runner(self) -> None:
        units = [of_id(test.id(), __name__) for test in flat(sample())]
        for more, chosen in (
            ({"PYTORCH_TEST_WITH_SLOW": "1"}, units),
            ({}, [unit for unit in units if "slow" not in unit.id]),
        ):
            mine = [
                {i for i in part if i in {u.id for u in chosen}} for part in self.parts(3, self.known, **more)
            ]
            self.assertEqual(mine, [set(shard) for shard in ids(assign(chosen, self.known, 3))])

    def test_nesting_stays(self) -> None:
        filtered = filter_suite(sample(), self.environ(1, 1000, {}), self.known, is_slow)
        self.assertEqual([type(item) for item in filtered], [unittest.TestSuite, unittest.TestSuite])

    def test_a_script_is_assigned_by_its_real_name(self) -> None:
        with self.running_as_main():
            mine = self.parts(3, self.known)
        self.assertEqual(
            [[name.replace("__main__", __name__) for name in part] for part in mine],
            self.parts(3, self.known),
        )

    @contextlib.contextmanager
    def running_as_main(self) -> Iterator[None]:
        main = {"__main__": sys.modules[__name__]}
        with mock.patch.object(Sample, "__module__", "__main__"), mock.patch.dict(sys.modules, main):
            yield

    def test_a_broken_timings_file(self) -> None:
        with (
            mock.patch.object(timings, "load", return_value=(Timings(), "broken")),
            self.assertRaisesRegex(UsageError, "broken"),
        ):
            filter_suite(sample(), self.environ(1, 2, {}), None, is_slow)

    def test_a_contradiction(self) -> None:
        with self.assertRaises(UsageError):
            filter_suite(sample(), {"SHARD_NUMBER": "1"})

    def test_slowness_comes_from_the_requirements(self) -> None:
        filtered = [filter_suite(sample(), self.environ(n, 2, {}), self.known) for n in (1, 2)]
        self.assertEqual(sum(suite.countTestCases() for suite in filtered), len(NAMES))

    def test_shard_is_named_here_too(self) -> None:
        self.assertEqual(str(Shard(1, 2)), "1/2")


if __name__ == "__main__":
    unittest.main()
