"""Lists the tests of a module that runs through pytest, as pytest collects them, and imports it by that."""

from __future__ import annotations

import contextlib
import gc
import io
import sys
import types
import unittest
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from harness.runner.pytest_modules.pytest_reports import skip_reason
from harness.runner.pytest_modules.pytest_session import QuietPlugin, case_of, rank_case, run_session, test_id
from harness.runner.scheduling.unit import Unit, of_id
from harness.runner.worker_process.listing import (
    Listing,
    PytestTest,
    project_files,
    source_of_function,
    unit_of,
)

# The major release of pytest whose hooks are used.
OLDEST = (8,)


class CollectionPlugin(QuietPlugin):
    """Keeps what pytest has collected from a file, unless ``leave`` returns True just before its import."""

    def __init__(self, leave: Callable[[], bool]) -> None:
        self._leave = leave
        self.left = False
        self.items: list[pytest.Item] = []
        self.errors: list[str] = []
        self.skips: list[str] = []
        self.finished = False

    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        """Ends the session where the file is not to be imported."""
        self.left = isinstance(collector, pytest.Module) and self._leave()
        if self.left:
            pytest.exit("another process lists this file")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Called for the file, its classes and the directories above."""
        if report.failed:
            self.errors.append(report.longreprtext)
        elif report.skipped:
            self.skips.append(skip_reason(report))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Keeps the items and runs none."""
        self.items = list(session.items)
        self.finished = True
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        """Spares what was imported, and stays, the garbage collections at pytest's end.

        They take a seventh of the time of an import of torch and a project.
        """
        gc.freeze()


def list_by_pytest(name: str, file: str, leave: Callable[[str], bool]) -> Listing:
    """The tests of the module ``name`` in ``file``, as pytest collects them; their objects are PytestTest.

    ``leave`` is as in ``list_module``.
    """
    if pytest.version_tuple < OLDEST:
        return Listing(refusal=f"{name} needs pytest {OLDEST[0]} or newer; {pytest.__version__} is installed")
    plugin = CollectionPlugin(lambda: leave(file))
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        run_session(file, plugin)
    text = said.getvalue().strip()
    print(text, end="\n" if text else "", file=sys.stderr)
    if plugin.left:
        return Listing()
    if plugin.errors:
        errors = "\n\n".join(plugin.errors)
        if name not in sys.modules:
            return Listing(error=errors)
        return Listing(refusal=f"pytest cannot collect {name}: {errors}")
    if not plugin.finished:
        return Listing(refusal=f"pytest cannot collect {name}: {_gist(text)}\n{text}")
    if plugin.skips and not plugin.items:
        return Listing(skipped="; ".join(dict.fromkeys(plugin.skips)))
    listing = Listing()
    module = sys.modules.get(name) or types.ModuleType(name)
    for item in plugin.items:
        _add(listing, item, module, file)
    listing.files = project_files(module, _cases(plugin.items))
    return listing


def _gist(text: str) -> str:
    """The line of what pytest said that tells why it has ended."""
    lines = [line for line in text.splitlines() if line.strip()] or ["it has ended before"]
    return next((line for line in lines if "error:" in line), lines[0])


def _cases(items: Iterable[pytest.Item]) -> set[type]:
    return {case for case in map(case_of, items) if case is not None}


def _add(listing: Listing, item: pytest.Item, module: types.ModuleType, file: str) -> None:
    case = case_of(item)
    unit = _of_case(item, case, module) if case is not None else _of_function(item, module)
    unit = replace(unit, shares=_shares(item, unit))
    if unit.id in listing.tests:
        listing.duplicates.append(unit.id)
        return
    if case is None and isinstance(on_ranks := rank_case(item), unittest.TestCase):
        case = type(on_ranks)
    listing.tests[unit.id] = PytestTest(file, case)
    listing.units.append(unit)


def _shares(item: pytest.Item, unit: Unit) -> str:
    """The class or module with whose other tests the item shares a fixture; "" where it shares none.

    Fixtures of a package or session are set up again for each batch. Those that pytest makes of each
    TestCase, to call its ``setUpClass``, do not count.
    """
    info = getattr(item, "_fixtureinfo", None)
    definitions = [each for defs in getattr(info, "name2fixturedefs", {}).values() for each in defs]
    scopes = {each.scope for each in definitions if not each.argname.startswith(_OF_EACH_CASE)}
    if "module" in scopes:
        return unit.module
    return unit.class_id if "class" in scopes else ""


# What the names of those fixtures begin with; the second is that of early releases.
_OF_EACH_CASE = ("_unittest_", "unittest_")


def _of_case(item: pytest.Item, case: type[unittest.TestCase], module: types.ModuleType) -> Unit:
    unit = unit_of(case(item.name), module)
    return replace(unit, imported=case.__module__ != module.__name__)


def _of_function(item: pytest.Item, module: types.ModuleType) -> Unit:
    file, line = source_of_function(getattr(item, "obj", None))
    if not file:
        file, line = str(item.path), (item.location[1] or 0) + 1
    unit = of_id(test_id(item, module.__name__), module.__name__, file=file, line=line)
    case = rank_case(item)
    if not isinstance(case, unittest.TestCase):
        return unit
    needs = unit_of(case, module)  # of a function on ranks
    return replace(
        unit, demand=needs.demand, slow=needs.slow, timeout_s=needs.timeout_s, supervised=needs.supervised
    )
