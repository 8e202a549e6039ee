"""Assigns tests to shards by their expected times, and cuts the suite of a module run by itself to one shard.

The assignment is a pure function of the ids, the timings file and the number of shards: every machine
computes the whole assignment and runs its own shard.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.runner.scheduling import timings as timings_file
from harness.runner.scheduling.timings import Timings
from harness.runner.scheduling.unit import Unit, of_id
from harness.runner.selection.module_names import real_module
from harness.runner.selection.shard_variables import Shard, shard_from_environ, touch_status_file
from harness.settings import slow_wanted

__all__ = ["Shard", "assign", "filter_suite", "ids_of_shard", "shard_from_environ", "touch_status_file"]

# Microseconds that the runner itself needs for a test, and the least cost of a test. Without it, tests with a
# recorded time of 0 s would all be in one shard.
LEAST_US = 1000
# The factors for the cost of fixtures in the assignments that are tried. A larger factor keeps the tests of
# one fixture in fewer shards, and may make the shards less even.
FIXTURE_WEIGHTS = (1, 2, 4, 8, 16)


@dataclass(slots=True)
class _Plan:
    """A partial assignment: for each shard its units, its load in microseconds, and its fixtures."""

    units: list[list[Unit]]
    loads: list[int]
    paid: list[set[str]]


def assign(units: Iterable[Unit], timings: Timings, total: int) -> list[tuple[Unit, ...]]:
    """Assigns the units to shards: ``total`` disjoint tuples that hold every unit, each longest first.

    The algorithm is longest processing time first (Graham 1969): in order of falling estimate, then of id,
    each unit goes to the shard that would end soonest with it. A module's or class's fixture counts once in
    each shard that needs it. So that an expensive fixture is set up in few shards, assignments with several
    weights for fixtures are made, and the one whose longest shard is shortest is returned. Without fixtures
    no shard exceeds the mean by more than the largest unit, nor the best possible assignment by more than a
    third.

    Only the ids, the timings and ``total`` matter; the order of ``units`` does not. The sums are in whole
    microseconds, so that every machine gets the same result. ``units`` must have no duplicate ids.
    """
    assert total >= 1, total
    units = tuple(units)
    costs = _costs(units, timings)
    assert len(costs) == len(units), "duplicate ids; the selection leaves none"
    fixtures = {
        unit.id: {key: us for key in timings.fixtures_of(unit.id) if (us := _us(timings.fixtures[key]))}
        for unit in units
    }
    ordered = sorted(units, key=lambda unit: (-costs[unit.id], unit.id))
    weights = FIXTURE_WEIGHTS if any(fixtures.values()) else FIXTURE_WEIGHTS[:1]
    plans = [_plan(ordered, costs, fixtures, total, weight) for weight in weights]
    best = min(plans, key=lambda plan: (max(plan.loads), sum(plan.loads)))
    return [tuple(shard) for shard in best.units]


def _plan(
    ordered: Sequence[Unit],
    costs: Mapping[str, int],
    fixtures: Mapping[str, Mapping[str, int]],
    total: int,
    weight: int,
) -> _Plan:
    """Assigns each unit in turn to the shard that would end soonest; fixtures count ``weight`` times."""
    plan = _Plan([[] for _ in range(total)], [0] * total, [set() for _ in range(total)])
    for unit in ordered:
        needed = fixtures[unit.id]
        starts = plan.loads
        if needed:
            starts = [
                load + weight * _unpaid(needed, paid)
                for load, paid in zip(plan.loads, plan.paid, strict=True)
            ]
        chosen = min(range(total), key=starts.__getitem__)
        plan.loads[chosen] += _unpaid(needed, plan.paid[chosen]) + costs[unit.id]
        plan.paid[chosen].update(needed)
        plan.units[chosen].append(unit)
    return plan


def _unpaid(needed: Mapping[str, int], paid: set[str]) -> int:
    return sum(us for key, us in needed.items() if key not in paid)


def _costs(units: Iterable[Unit], timings: Timings) -> dict[str, int]:
    estimates = timings.estimates(unit.id for unit in units)
    return {test_id: max(LEAST_US, _us(seconds)) for test_id, seconds in estimates.items()}


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def filter_suite(
    suite: unittest.TestSuite,
    environ: Mapping[str, str],
    timings: Timings | None = None,
    is_slow: Callable[[unittest.TestCase], bool] | None = None,
) -> unittest.TestSuite:
    """The tests of a module's suite that are in the shard that the variables of ``environ`` name.

    It is for a module run by itself (``python -m suites.c10d.test_stores``); ``run_tests.py`` does not call
    it, because its controller has selected the shard. It keeps exactly the tests that ``run_tests.py`` would
    run in the same shard if it were given that module alone with the same flags and timings file:

    * the timings are those of ``suites/timings.json`` unless given; that file need not exist;
    * tests of a module run as a script have ``__main__`` in their ids, and are assigned by the module's
      real name;
    * slow tests (``is_slow``, by default their requirements) count for the balance only if
      ``PYTORCH_TEST_WITH_SLOW`` is 1. Otherwise they are assigned separately, and skip in every shard.

    Every test is in exactly one of the shards; tests with the same id are in the same shard. The order and
    nesting of the suite stay, so that unittest's fixtures run as before. Creates ``TEST_SHARD_STATUS_FILE``.
    Raises the UsageError of ``shard_from_environ`` and ``timings.load_for``. Without shard variables the
    suite is returned unchanged.
    """
    touch_status_file(environ)
    shard = shard_from_environ(environ)
    if shard is None:
        return suite
    if timings is None:
        timings, _ = timings_file.load_for(None, sharded=True)
    slow_runs = slow_wanted(environ)
    is_slow = is_slow or _is_slow
    units: dict[str, Unit] = {}
    separate: set[str] = set()
    for test in _tests(suite):
        unit = _unit(test)
        units[unit.id] = unit
        if not slow_runs and is_slow(test):
            separate.add(unit.id)
    return _kept(suite, ids_of_shard(units.values(), separate, timings, shard))


def ids_of_shard(
    units: Iterable[Unit], separate: Collection[str], timings: Timings, shard: Shard
) -> frozenset[str]:
    """The ids of the units in one shard; those in ``separate`` do not count for the balance of the others.

    ``separate`` are tests that will skip, and so take no time whatever was recorded.
    """
    both: tuple[list[Unit], list[Unit]] = ([], [])
    for unit in units:
        both[unit.id in separate].append(unit)
    return frozenset(
        unit.id for some in both for unit in assign(some, timings, shard.total)[shard.number - 1]
    )


def _tests(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from _tests(item)
        else:
            yield item


def _kept(suite: unittest.TestSuite, ids: Collection[str]) -> unittest.TestSuite:
    items = (
        _kept(item, ids) if isinstance(item, unittest.TestSuite) else item
        for item in suite
        if isinstance(item, unittest.TestSuite) or _unit(item).id in ids
    )
    return type(suite)(items)


def _unit(test: unittest.TestCase) -> Unit:
    """The unit of a loaded test, with the fields that ``assign`` reads."""
    module, test_id = type(test).__module__, test.id()
    real = real_module(module)
    if real != module:
        test_id = real + test_id.removeprefix(module)
    return of_id(test_id, real)


def _is_slow(test: unittest.TestCase) -> bool:
    from harness.requirements import requirements_of  # imported late: most runs are not sharded

    try:
        return requirements_of(test, getattr(test, "_testMethodName", "")).slow
    except ValueError:  # unittest's stand-ins and doctests have no test method
        return False
