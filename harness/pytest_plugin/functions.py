"""The hooks that run test functions with ``@pytest.mark.ranks`` on ranks, and their fixture ``rank_context``.

A plugin of its own: pytest loads it with ``plugin.py``, and ``run_tests.py`` loads it alone. An item with the
mark gets the attribute ``harness_case``, which has what other hooks ask of the instance of a test case.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import unittest
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.skipping import xfailed_key
from _pytest.unittest import TestCaseFunction

from harness.errors import HarnessError, UsageError
from harness.pytest_plugin.items import CASE, MARK, MARK_IS_OURS, has_mark, running_case, test_id

if TYPE_CHECKING:
    from harness.cases.rank_function import FailedSubtest, RankFunction

# Imported in ranks before the test's module, whose assert statements it is about.
_REWRITING = "harness.pytest_plugin.rewritten_asserts"

_HELP = (
    f"{MARK}(world_size, backend='gloo', mode=None): torch-harness runs the test function on that many "
    "ranks; its argument rank_context has rank, world_size, backend, device and file_name"
)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark, unless the project has one of that name with a meaning of its own."""
    theirs = any(re.match(rf"{MARK}\b", line) for line in config.getini("markers"))
    config.stash[MARK_IS_OURS] = not theirs
    if not theirs:
        config.addinivalue_line("markers", _HELP)


class _OfNoRank:
    """What fixtures see as ``rank_context``, which has its values in ranks alone."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # pickle and pytest ask for these
            raise AttributeError(name)
        raise UsageError(
            f"rank_context.{name} is not known in a fixture: fixtures are set up once, in pytest's process, "
            "before there are ranks. Do this in the test, or in a function that it calls"
        )


@pytest.fixture
def rank_context(request: pytest.FixtureRequest) -> _OfNoRank:
    """The rank of a test function with @pytest.mark.ranks: rank, world_size, backend, device, file_name."""
    if not has_mark(request.node):
        why = f"rank_context is what a rank knows: put @pytest.mark.{MARK}(N) on the test"
        pytest.fail(why, pytrace=False)
    return _OfNoRank()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Gives each item with the mark a case that tells what the test needs."""
    marked = [item for item in items if has_mark(item)]
    if not marked:
        return
    from harness.pytest_plugin import rewritten_asserts
    from harness.ranks.processes import module_import

    rewritten_asserts.keep(config)
    # Before every test's module, since a server may import that for a class in it, and then for a function.
    module_import.import_first(_REWRITING)
    for item in marked:
        try:
            setattr(item, CASE, _case_for(item))
        except UsageError:
            continue  # raised again when the item runs, as its failure


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Gives an item with the mark the case that runs it, with the values of its fixtures.

    The ranks of any case warn by the filters that pytest has for the test.
    """
    if has_mark(item) and (refusal := _refusal(item)):
        pytest.fail(refusal, pytrace=False)
    case = running_case(item)
    if case is not None:
        _give_filters(item, case)
    return (yield)


def _give_filters(item: pytest.Item, case: Any) -> None:
    from harness.pytest_plugin import warning_filters
    from harness.ranks.warning_filters import encoded

    case.rank_warning_filters = encoded(warning_filters.of_item(item))


def _refusal(item: pytest.Item) -> str:
    """Binds the item's case to the values of its fixtures; returns why that cannot be done, or ""."""
    try:
        setattr(item, CASE, _case_for(item, bound=True))
    except UsageError as error:
        return str(error)
    return ""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test function with the mark on ranks."""
    if not has_mark(pyfuncitem):
        return None
    __tracebackhide__ = True
    from harness.cases import rank_function

    subtests = _subtests(pyfuncitem)
    try:
        rank_function.run(
            getattr(pyfuncitem, CASE), functools.partial(_report, subtests) if subtests is not None else None
        )
    except unittest.SkipTest as skip:
        raise pytest.skip.Exception(str(skip), _use_item_location=True) from None
    return True


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Has a mark ``xfail`` with ``raises`` and pytest-rerunfailures find what ranks raised.

    After pytest's unittest plugin has given the call the exception of a TestCase, and before others compare.
    """
    report = yield
    if call.excinfo is None or not isinstance(call.excinfo.value, HarnessError):
        return report
    from harness.pytest_plugin import expected_exceptions

    expected_exceptions.name_cause(call.excinfo.value)
    expected_exceptions.show_to_condition(item)
    xfailed = item.stash.get(xfailed_key, None)
    raises = xfailed.raises if xfailed is not None else None
    if xfailed is not None and raises and expected_exceptions.raised_by_ranks(call.excinfo.value, raises):
        item.stash[xfailed_key] = dataclasses.replace(xfailed, raises=None)
    return report


def _subtests(item: pytest.Function) -> Any | None:
    """The value of pytest's fixture ``subtests``, its own or that of pytest-subtests; None without one."""
    value = item.funcargs.get("subtests")
    return value if type(value).__module__.partition(".")[0] in ("_pytest", "pytest_subtests") else None


def _own(item: pytest.Function) -> set[str]:
    """The arguments that are pytest's fixtures of which each rank gets one of its own, not a copy."""
    from harness.cases.rank_function import MONKEYPATCH, SUBTESTS

    patches = isinstance(item.funcargs.get(MONKEYPATCH), pytest.MonkeyPatch)
    return {*([SUBTESTS] if _subtests(item) is not None else ()), *([MONKEYPATCH] if patches else ())}


def _report(subtests: Any, failed: FailedSubtest) -> None:
    """Has pytest report a failed sub-test of ranks as one of its own."""
    __tracebackhide__ = True
    with subtests.test(failed.msg, **failed.parameters):
        raise failed.error


def _case_for(item: pytest.Item, *, bound: bool = False) -> RankFunction:
    """The case for an item with the mark; ``bound``: with the values of its fixtures, which are set up.

    UsageError where the item cannot run on ranks, or where the mark's arguments make no sense.
    """
    from harness.cases.rank_function import RankFunction
    from harness.cases.ranks_mark import RanksMark

    marker = item.get_closest_marker(MARK)
    assert marker is not None
    callspec = getattr(item, "callspec", None)  # of a parametrized test, or of one with such a fixture
    parameters = callspec.params if callspec is not None else {}
    mark = RanksMark.of(marker.args, marker.kwargs, parameters)
    if not isinstance(item, pytest.Function) or isinstance(item, TestCaseFunction):
        raise UsageError(
            f"{item.nodeid}: the mark {MARK} is for test functions; a TestCase derives from "
            "harness.MultiProcessTestCase and has a world_size"
        )
    values = {name: item.funcargs[name] for name in item._fixtureinfo.argnames} if bound else {}
    return RankFunction.for_function(
        item.obj,
        mark,
        name=test_id(item),
        values=values,
        own=_own(item) if bound else (),
    )
