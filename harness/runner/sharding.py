"""Who does what: tests assigned to shards, and a module's own suite cut down to one shard.

The assignment is a pure function of the ids, the timings file and the number of shards: every machine
computes all of it and takes its part.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from harness.runner import timings as timings_file
from harness.runner.names import real_module
from harness.runner.shard import Shard, shard_from_environ, touch_status_file
from harness.runner.timings import Timings
from harness.runner.unit import Unit, of_id

__all__ = ["Shard", "assign", "filter_suite", "predicted", "shard_from_environ", "touch_status_file"]

# Microseconds: what the runner itself needs for a test, and the least that a test counts. Without it, tests
# that are recorded with 0 s would all go to one shard.
LEAST_US = 1000


def assign(units: Iterable[Unit], timings: Timings, total: int) -> list[tuple[Unit, ...]]:
    """Who does what: ``total`` disjoint tuples that hold every unit, each longest first.

    Longest processing time first (Graham 1969): the units by falling estimate, then by id, each to the
    shard that is done soonest with it. A module's or class's fixture is counted once in each shard that needs
    it, so tests that share a dear fixture keep together as long as that is the quicker way. Only the ids,
    the timings and ``total`` matter; the order of ``units`` does not. In whole microseconds, so that every
    machine comes to the same result. No shard exceeds the mean of all by more than the largest unit with its
    fixtures. ``units`` must have no duplicate ids.
    """
    assert total >= 1, total
    units = tuple(units)
    costs = _costs(units, timings)
    assert len(costs) == len(units), "duplicate ids; the selection leaves none"
    fixtures = {key: _us(seconds) for key, seconds in timings.fixtures.items()}
    shards: list[list[Unit]] = [[] for _ in range(total)]
    loads = [0] * total
    paid: list[set[str]] = [set() for _ in range(total)]
    for unit in sorted(units, key=lambda u: (-costs[u.id], u.id)):
        keys = timings.fixtures_of(unit.id)
        starts = loads
        if keys:
            starts = [
                load + sum(fixtures[key] for key in keys if key not in done)
                for load, done in zip(loads, paid, strict=True)
            ]
        chosen = min(range(total), key=starts.__getitem__)
        loads[chosen] = starts[chosen] + costs[unit.id]
        paid[chosen].update(keys)
        shards[chosen].append(unit)
    return [tuple(shard) for shard in shards]


def predicted(shards: Iterable[Sequence[Unit]], timings: Timings) -> list[float]:
    """The seconds that each shard of ``assign`` is expected to take, fixtures included."""
    return [_load_us(shard, timings) / 1e6 for shard in shards]


def _load_us(units: Sequence[Unit], timings: Timings) -> int:
    needed = {key for unit in units for key in timings.fixtures_of(unit.id)}
    return sum(_costs(units, timings).values()) + sum(_us(timings.fixtures[key]) for key in needed)


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
    """The part of a module's own suite that the shard variables of ``environ`` leave to this process.

    For a module run by itself (``python -m suites.c10d.test_stores``); under ``run_tests.py`` nobody calls
    it, for there the controller has chosen already. It keeps exactly the tests that ``run_tests.py`` would
    run in the same shard if it were given that module alone with the same flags and timings file:

    * the timings are those of ``suites/timings.json`` unless given; a broken file counts as none;
    * tests of a module run as a script have ``__main__`` in their ids, and are assigned by the module's
      real name;
    * slow tests (``is_slow``, by default their requirements) count for the balance only if
      ``PYTORCH_TEST_WITH_SLOW`` is 1. Otherwise they are spread on their own, and skip wherever they are.

    Every test is kept by exactly one of the shards, those of equal ids by the same. The order and nesting
    of the suite stay, so that unittest's fixtures run as before. Touches ``TEST_SHARD_STATUS_FILE``.
    UsageError as ``shard_from_environ``. Without shard variables the suite comes back as it is.
    """
    touch_status_file(environ)
    shard = shard_from_environ(environ)
    if shard is None:
        return suite
    if timings is None:
        timings, _ = timings_file.load(timings_file.default_path())
    slow_runs = environ.get("PYTORCH_TEST_WITH_SLOW") == "1"
    is_slow = is_slow or _is_slow
    fast: dict[str, Unit] = {}
    slow: dict[str, Unit] = {}
    for test in _tests(suite):
        unit = _unit(test)
        (slow if not slow_runs and is_slow(test) else fast)[unit.id] = unit
    mine = {
        unit.id
        for units in (fast, slow)
        for unit in assign(units.values(), timings, shard.total)[shard.number - 1]
    }
    return _kept(suite, mine)


def _tests(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from _tests(item)
        else:
            yield item


def _kept(suite: unittest.TestSuite, ids: set[str]) -> unittest.TestSuite:
    items = (
        _kept(item, ids) if isinstance(item, unittest.TestSuite) else item
        for item in suite
        if isinstance(item, unittest.TestSuite) or _unit(item).id in ids
    )
    return type(suite)(items)


def _unit(test: unittest.TestCase) -> Unit:
    """The unit that discovery would make of a loaded test, as far as ``assign`` looks at it."""
    module, test_id = type(test).__module__, test.id()
    real = real_module(module)
    if real != module:
        test_id = real + test_id.removeprefix(module)
    return of_id(test_id, real)


def _is_slow(test: unittest.TestCase) -> bool:
    from harness.requirements import requirements_of  # not needed where nobody shards

    try:
        return requirements_of(test, getattr(test, "_testMethodName", "")).slow
    except ValueError:  # no TestCase with a method: unittest's stand-ins, doctests
        return False
