"""Checks that every planted fault of the tracer fails every train-step test that executes it.

Each fault of ``suites/spmd/train_step_mutants.py`` is planted in two ranks, which then run the bodies of the
contract's tests, or of other tests for faults that those do not execute. ``tools/mutants.py spmd`` does the
same with the whole suite.
"""

from __future__ import annotations

import importlib
import sys
import unittest
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from harness import instantiate_parametrized_tests, parametrize, subtest
from suites.planting import Mutant


def suite(name: str) -> Any:
    """Imports a module of ``suites.spmd`` in a way that the type checker does not follow."""
    return importlib.import_module(f"suites.spmd.{name}")


mutants = suite("train_step_mutants")
coverage, changes = suite("test_train_step_coverage"), suite("test_train_step_changes")

Tests = Sequence[tuple[type[unittest.TestCase], str]]

#: The tests that a fault is tried on: classes, with the prefix of the test names.
CONTRACT = ((suite("test_train_step").TraceTrainStepTest, "test"),)
BATCH_NORM = (coverage.LayersTest, "test_batch_norm")
ASSIGNED = (coverage.LayersTest, "test_buffer_that_is_assigned")
LOADED = (changes.StateTest, "test")
BUCKETS = (suite("test_train_step_optimizers").OptimizersTest, "test_in_buckets")
#: The tests for faults that the contract's tests do not execute.
ELSEWHERE: dict[str, Tests] = {
    "bucket_forgets_a_gradient": (BUCKETS,),
    "never_buckets": (BUCKETS,),
    "ignores_guards": ((changes.RetracedTest, "test"),),
    "keeps_old_state": (LOADED,),
    "stale_learning_rate": ((changes.SchedulesTest, "test"),),
    "loses_rebound_state": (ASSIGNED, LOADED),
    "loses_buffers": (ASSIGNED, BATCH_NORM),
    "casts_twice": ((changes.RetracedTest, "test_precision_of_autocast"),),
}
#: Faults that only the whole suite can show: one needs a mesh of four ranks, the other two param groups.
NOT_HERE = {"tracer_ignores_group", "one_rate_for_all_groups"}


@contextmanager
def restored() -> Iterator[None]:
    """On exit, restores the attributes of the tracer's modules and classes."""
    modules = [module for name, module in sys.modules.items() if name.startswith(mutants.TRACER)]
    classes = {each for module in modules for each in vars(module).values() if isinstance(each, type)}
    owners = [*modules, *(each for each in classes if each.__module__.startswith(mutants.TRACER))]
    before = [dict(vars(each)) for each in owners]
    try:
        yield
    finally:
        for owner, attributes in zip(owners, before, strict=True):
            for name, value in attributes.items():
                if vars(owner)[name] is not value:
                    setattr(owner, name, value)


def outcomes(mutant: Mutant, tests: Tests, rank: int, world_size: int) -> dict[str, bool]:
    """For each test that executes the fault, by name, whether it fails."""
    touched: list[str] = []
    failed = {}
    with restored():
        mutant.plant(lambda: touched.append(mutant.name))
        for case, prefix in tests:
            for name in filter(lambda name: name.startswith(prefix), dir(case)):
                touched.clear()
                fails = _fails(case(name), rank, world_size)
                if touched:
                    failed[f"{case.__name__}.{name}"] = fails
    return failed


def _fails(case: Any, rank: int, world_size: int) -> bool:
    """Whether a test's body fails in this rank; under a fault, any exception counts as a failure."""
    case.rank, case.world_size = rank, world_size
    case.setUpRank()
    try:
        getattr(case, case._testMethodName)()
    except Exception:  # noqa: BLE001
        return True
    return False


class MutantsTest(suite("train_step_base").TrainStepTestCase):  # type: ignore[misc]  # as suite() says
    """Each fault of the tracer is noticed."""

    @parametrize(
        "mutant", [subtest(each, name=each.name) for each in mutants.MUTANTS if each.name not in NOT_HERE]
    )
    def test_fails_what_it_concerns(self, mutant: Mutant) -> None:
        """At least one test executes the fault, and every test that does fails."""
        failed = outcomes(mutant, ELSEWHERE.get(mutant.name, CONTRACT), self.rank, self.world_size)
        self.assertTrue(failed, "no test is concerned")
        self.assertEqual([name for name, fails in failed.items() if not fails], [])


instantiate_parametrized_tests(MutantsTest)

if __name__ == "__main__":
    unittest.main()
