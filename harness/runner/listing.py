"""``list_module`` imports a test module, in the zygote or a worker, and makes a unit of each of its tests."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
import unittest
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from types import ModuleType

from harness.requirements import requirements_of
from harness.requirements.merged import Requirements
from harness.runner.duplicate_ids import Loader
from harness.runner.unit import Demand, Unit, of_id
from harness.settings import SUPERVISED, EnvVar

# Number of ranks that share a CPU slot, because a rank spends most of its time waiting for its peers. On two
# cores the suites finish 1.6 x sooner where two tests of four ranks run at once than where one runs at a
# time; with two ranks a slot it is 1.2 x.
RANKS_A_SLOT = 4
_PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


@dataclass(slots=True)
class Listing:
    """A module's tests: units, test objects by id, and the ids that several different tests share.

    ``files`` are the sources that the list depends on. Where the import failed, ``error`` is its traceback;
    where the module raised SkipTest, ``skipped`` is the reason.
    """

    units: list[Unit] = field(default_factory=list)
    tests: dict[str, unittest.TestCase] = field(default_factory=dict)
    duplicates: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    error: str = ""
    skipped: str | None = None


def list_module(name: str) -> Listing:
    """Imports a module and lists its tests. Never raises: an error of the import is in the result."""
    try:
        if os.environ.get(EnvVar.DROP_IN) == "1":
            importlib.import_module("harness.dropin").install()
        module = importlib.import_module(name)
        loader = Loader()
        suite = loader.loadTestsFromModule(module)
    except unittest.SkipTest as skip:
        return Listing(skipped=str(skip) or "no reason given")
    except BaseException as error:  # noqa: BLE001 - a module may raise anything, SystemExit too; it is reported
        return Listing(error=import_error_text(error))
    listing = Listing()
    for test in flatten(suite):
        _add(listing, test, module, loader)
    listing.files = project_files(module, listing.tests.values())
    return listing


def _add(listing: Listing, test: unittest.TestCase, module: ModuleType, loader: Loader) -> None:
    test_id = test.id()
    known = listing.tests.get(test_id)
    if known is None:
        listing.tests[test_id] = test
        listing.units.append(replace(unit_of(test, module), imported=loader.imported(test, module)))
    elif test_id not in listing.duplicates and not loader.same(known, test):
        listing.duplicates.append(test_id)


def flatten(suite: Iterable[object]) -> Iterator[unittest.TestCase]:
    """Every test of a suite, in its order."""
    for item in suite:
        if isinstance(item, unittest.TestCase):
            yield item
        elif isinstance(item, Iterable):
            yield from flatten(item)


def import_error_text(error: BaseException) -> str:
    """The traceback of a failed import, without the frames of this file and of ``importlib``."""
    trace = error.__traceback__
    while trace is not None and _is_importer(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()


def _is_importer(file: str) -> bool:
    return file == __file__ or file == importlib.__file__ or file.startswith("<frozen importlib")


def unit_of(test: unittest.TestCase, module: ModuleType) -> Unit:
    """The unit of a test that was loaded from a module."""
    method = getattr(test, "_testMethodName", "")
    try:
        wants = requirements_of(test, method)
    except ValueError:  # unittest's stand-ins and doctests have no test method
        wants = Requirements()
    file, line = source_of(test, method)
    unit = of_id(
        test.id(),
        module.__name__,
        demand=demand_of(wants, ranks_of(test, wants)),
        slow=wants.slow,
        timeout_s=wants.timeout_s,
        supervised=is_supervised(test, method),
        file=file,
        line=line,
    )
    return replace(unit, fixtures=fixtures_of(unit, type(test)))


def is_supervised(test: unittest.TestCase, method: str) -> bool:
    """Whether the test has ranks, whose supervisor keeps the test's deadline."""
    return hasattr(test, "_join_processes") or hasattr(getattr(test, method, None), SUPERVISED)


def ranks_of(test: unittest.TestCase, wants: Requirements) -> int:
    """The test's world size: the one that it requires, else its ``world_size`` attribute, else 1."""
    if wants.world_size is not None:
        return wants.world_size
    try:
        size = getattr(test, "world_size", None)
    except Exception:  # noqa: BLE001 - a property of a test class may raise before setUp has run
        size = None
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else 1


def demand_of(wants: Requirements, ranks: int) -> Demand:
    """What the scheduler reserves for a test with these requirements and this number of ranks."""
    slots = wants.cpu_slots if wants.cpu_slots is not None else -(-ranks // RANKS_A_SLOT)
    return Demand(
        ranks=ranks,
        cpu_slots=max(1, slots),
        accelerators=wants.gpus(ranks),
        memory_mb=wants.memory_mb or 0,
        exclusive=wants.exclusive,
    )


def fixtures_of(unit: Unit, cls: type) -> tuple[str, ...]:
    """Keys of the fixtures that a test of this class needs, outermost first."""
    owner = sys.modules.get(cls.__module__)
    keys = [unit.module] if hasattr(owner, "setUpModule") or hasattr(owner, "tearDownModule") else []
    if any(_differs(cls, name) for name in _CLASS_FIXTURES):
        keys.append(unit.class_id)
    return tuple(keys)


def _differs(cls: type, name: str) -> bool:
    """True where a class overrides this fixture of unittest."""
    empty = getattr(unittest.TestCase, name)
    return getattr(getattr(cls, name, empty), "__func__", None) is not empty.__func__


_CLASS_FIXTURES = ("setUpClass", "tearDownClass")


def source_of(test: unittest.TestCase, method_name: str) -> tuple[str, int]:
    """The file and line of a test method, without its decorators; ("", 0) where it is not Python code."""
    function = getattr(test, method_name, None)
    for _ in range(100):  # a cycle of __wrapped__, a user's bug, must not hang the runner
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is None:
            break
        function = wrapped
    code = getattr(function, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)


def project_files(module: ModuleType, tests: Iterable[unittest.TestCase]) -> list[str]:
    """The source files that a module's list of tests depends on.

    They are the module's file and those of its classes' bases. For a module outside of this project, every
    other imported source that is no test module is added, because any may hold a table that tests are made
    from. Files of installed packages are left out, and so are this project's helpers: the cache's key covers
    both.
    """
    classes = {cls for test in tests for cls in type(test).__mro__}
    names = {module.__name__, *(cls.__module__ for cls in classes)}
    files = {getattr(sys.modules.get(name), "__file__", None) for name in names}
    own = getattr(module, "__file__", None)
    if own and not own.startswith(_PROJECT):
        files |= _helpers()
    installed = (sys.prefix + os.sep, sys.base_prefix + os.sep)
    return sorted(f for f in files if f and (f == own or not f.startswith(installed)))


def _helpers() -> set[str | None]:
    files = {getattr(module, "__file__", None) for module in tuple(sys.modules.values())}
    return {
        f for f in files if f and not f.startswith(_PROJECT) and not os.path.basename(f).startswith("test_")
    }
