"""What a collected item is: a test of the harness, with ranks, skipped by a mark; and its id and demand.

An item is pytest's; these functions read its class, method, module and marks, and run nothing of the test.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.skipping import evaluate_skip_marks, evaluate_xfail_marks

from harness.runner.unit import Demand, Unit, of_id

_LIBRARY = __name__.partition(".")[0]


def of_harness(item: pytest.Item) -> bool:
    """Whether the item's class has a base in this library, as all of its test classes have."""
    return any(str(base.__module__).partition(".")[0] == _LIBRARY for base in _bases(item))


def any_of_harness(items: Iterable[pytest.Item]) -> bool:
    """Whether one of the items is a test of the harness."""
    return any(of_harness(item) for item in items)


def rank_class(item: pytest.Item) -> Any | None:
    """The item's class where it runs its methods on ranks, else None."""
    cases = sys.modules.get("harness.cases.multiprocess")
    return getattr(item, "cls", None) if cases and cases.RankOrchestration in _bases(item) else None


def _bases(item: pytest.Item) -> tuple[type, ...]:
    cls = getattr(item, "cls", None)
    return cls.__mro__ if isinstance(cls, type) else ()


def skipped_by_mark(item: pytest.Item) -> bool:
    """Whether marks or unittest's decorators skip the item before its fixtures.

    A mark that cannot be evaluated counts as one that skips: pytest reports it when it sets up the item.
    """
    method = getattr(getattr(item, "cls", None), getattr(item, "originalname", item.name), None)
    if any(getattr(marked, "__unittest_skip__", False) for marked in (getattr(item, "cls", None), method)):
        return True
    try:
        if evaluate_skip_marks(item) is not None:
            return True
        expected = evaluate_xfail_marks(item)
    except BaseException as error:
        if isinstance(error, (Exception, pytest.fail.Exception)):
            return True
        raise
    return expected is not None and not expected.run and not item.config.option.runxfail


def test_id(item: pytest.Item) -> str:
    """The id by which times are recorded: unittest's for a test case, dotted in the same way elsewhere."""
    module = getattr(item, "module", None)
    if not isinstance(module, types.ModuleType):
        return item.nodeid
    cls = getattr(item, "cls", None)
    return ".".join((module.__name__, *((cls.__qualname__,) if cls is not None else ()), item.name))


def unit_of(item: pytest.Item) -> Unit:
    """The item as a unit of the runner: its id and, for a test of the harness, demand and slowness.

    Reads the test's requirements and the ``world_size`` of the instance that pytest has made of its class.
    """
    name, module = test_id(item), getattr(item, "module", None)
    if not of_harness(item) or not isinstance(module, types.ModuleType):
        return of_id(name, getattr(module, "__name__", ""))
    from harness.runner import listing

    return listing.unit_of(item.instance, module)  # type: ignore[attr-defined]  # Function's, not Item's


def demand_of(item: pytest.Item) -> Demand | None:
    """What the item takes of the machine where it has ranks or must run alone; None for any other."""
    if not of_harness(item):
        return None
    unit = unit_of(item)
    return unit.demand if unit.supervised or unit.demand.exclusive else None
