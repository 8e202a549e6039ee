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

from harness.runner.scheduling.unit import Demand, Unit, of_id

_LIBRARY = __name__.partition(".")[0]
# The mark that runs a test function on ranks.
MARK = "ranks"
# With the configuration: whether the mark has this meaning in the project, which may have one of that name.
MARK_IS_OURS = pytest.StashKey[bool]()
# The attribute of an item with the mark: the case that runs it. A name, because the runner reads it too.
CASE = "harness_case"


def of_harness(item: pytest.Item) -> bool:
    """Whether the item has the mark, or its class a base in this library, as all of its test classes have."""
    bases = _bases(item)
    return has_mark(item) or any(str(base.__module__).partition(".")[0] == _LIBRARY for base in bases)


def has_mark(item: pytest.Item) -> bool:
    """Whether the item has the mark that runs a test function on ranks."""
    return item.config.stash.get(MARK_IS_OURS, False) and item.get_closest_marker(MARK) is not None


def running_case(item: pytest.Item) -> Any | None:
    """The case that runs the item on ranks now; None for an item without ranks."""
    case = getattr(item, CASE, None) or getattr(item, "instance", None)
    return case if hasattr(case, "_harness_outcome") else None


def any_of_harness(items: Iterable[pytest.Item]) -> bool:
    """Whether one of the items is a test of the harness."""
    return any(of_harness(item) for item in items)


def rank_modes(item: pytest.Item) -> tuple[str, ...]:
    """The rank modes that the item can run in, the default first; () for an item without ranks."""
    cases = sys.modules.get("harness.cases.multiprocess")
    case = getattr(item, CASE, None) or getattr(item, "instance", None)
    return tuple(case.rank_modes) if cases and isinstance(case, cases.RankOrchestration) else ()


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
    from harness.runner.worker_process import listing

    case = getattr(item, CASE, None) or getattr(item, "instance", None)
    return of_id(name, module.__name__) if case is None else listing.unit_of(case, module)


def demand_of(item: pytest.Item) -> Demand | None:
    """What the item takes of the machine where it has ranks or must run alone; None for any other."""
    if not of_harness(item):
        return None
    unit = unit_of(item)
    return unit.demand if unit.supervised or unit.demand.exclusive else None
