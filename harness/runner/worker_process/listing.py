"""``list_module`` imports a test module, in the zygote or a worker, and makes a unit of each of its tests."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
import unittest
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

from harness import pytest_outcomes
from harness.conformance_features import feature_of
from harness.dropin import exit_at_import
from harness.requirements import requirements_of
from harness.requirements.merged import Requirements
from harness.runner.pytest_modules import pytest_use
from harness.runner.scheduling.unit import Demand, Unit, of_id
from harness.runner.selection.duplicate_ids import Loader
from harness.settings import SUPERVISED, EnvVar
from harness.targets import accelerators

# Number of ranks that share a CPU slot, because a rank spends most of its time waiting for its peers. On two
# cores the suites finish 1.6 x sooner where two tests of four ranks run at once than where one runs at a
# time; with two ranks a slot it is 1.2 x.
RANKS_A_SLOT = 4
_PROJECT = str(Path(os.path.abspath(__file__)).parents[3]) + os.sep


@dataclass(slots=True)
class Listing:
    """A module's tests: units, test objects by id, and the ids that several different tests share.

    ``files`` are the sources that the list depends on. Where the import failed, ``error`` is its traceback;
    where the module skips itself, ``skipped`` is the reason; where pytest would have to run it and cannot,
    ``refusal`` says why.
    """

    units: list[Unit] = field(default_factory=list)
    tests: dict[str, unittest.TestCase] = field(default_factory=dict)
    duplicates: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    error: str = ""
    skipped: str | None = None
    refusal: str = ""


class PytestTest(unittest.TestCase):
    """Stands for a test that pytest has to run, in the place of the TestCase that unittest would run.

    ``file`` is the test module's, and ``case`` the test's class where that is a TestCase.
    """

    def __init__(self, file: str, case: type[unittest.TestCase] | None) -> None:
        super().__init__("debug")  # any method that there is: pytest calls the test's own
        self.file = file
        self.case = case


def _never(_file: str) -> bool:
    return False


def list_module(name: str, leave: Callable[[str], bool] = _never) -> Listing:
    """Imports a module and lists its tests. Never raises: an error of the import is in the result.

    The tests of a module that needs pytest are listed by pytest, which imports it, so that its ``assert``
    statements tell the values. ``leave`` is called with the module's file just before that is imported; where
    it returns True, the module is not, and nothing is listed.
    """
    try:
        if os.environ.get(EnvVar.DROP_IN) == "1":
            importlib.import_module("harness.dropin").install_at_import()
        file, use, files = _source_use(name)
        if use:
            return _by_pytest(name, file, use, files, leave)
        if leave(file):
            return Listing()
        module = importlib.import_module(name)
        loader = Loader()
        tests = list(flatten(loader.loadTestsFromModule(module)))
        use = pytest_use.use_in_module(module, [getattr(test, "_testFunc", None) for test in tests])
        if use and file:
            return _by_pytest(name, file, use, files, _never)
    except unittest.SkipTest as skip:
        return Listing(skipped=str(skip) or "no reason given")
    except BaseException as error:  # noqa: BLE001 - a module may raise anything, SystemExit too; it is reported
        if pytest_outcomes.skips_module(error):
            return Listing(skipped=str(error) or "no reason given")
        if why := exit_at_import.reason(error):
            return Listing(skipped=why)
        return Listing(error=import_error_text(error))
    listing = Listing()
    for test in tests:
        _add(listing, test, module, loader)
    listing.files = project_files(module, {type(test) for test in listing.tests.values()})
    return listing


def _source_use(name: str) -> tuple[str, str, tuple[str, ...]]:
    """A module's file, what of pytest it needs before it is imported, and the files beside it that say so."""
    try:
        spec = importlib.util.find_spec(name)
    except BaseException:  # noqa: BLE001 - a package above may raise anything; the import meets it again
        return "", "", ()
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return "", "", ()
    file = Path(spec.origin).resolve()
    around, files = pytest_use.use_around(file, Path.cwd())
    use = around or pytest_use.use_in_source(file.read_text(encoding="utf-8", errors="replace"))
    return str(file), use, files


def _by_pytest(
    name: str, file: str, use: str, files: tuple[str, ...], leave: Callable[[str], bool]
) -> Listing:
    try:
        lister = importlib.import_module("harness.runner.pytest_modules.pytest_listing")
    except ModuleNotFoundError as error:
        return Listing(refusal=f"{name} needs pytest ({use}), which is not installed\n{error}")
    listing: Listing = lister.list_by_pytest(name, file, leave)
    if listing.files:
        listing.files = sorted({*listing.files, *files})
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
    ranks = ranks_of(test, wants)
    unit = of_id(
        test.id(),
        module.__name__,
        demand=demand_of(wants, ranks, accelerators.taken(test, ranks)),
        slow=wants.slow,
        timeout_s=wants.timeout_s,
        supervised=is_supervised(test, method),
        file=file,
        line=line,
        feature=feature_of(test),
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


def demand_of(wants: Requirements, ranks: int, of_target: int = 0) -> Demand:
    """What the scheduler reserves for a test with these requirements and ranks.

    ``of_target`` is the number of the target's accelerators that it takes.
    """
    slots = wants.cpu_slots if wants.cpu_slots is not None else -(-ranks // RANKS_A_SLOT)
    return Demand(
        ranks=ranks,
        cpu_slots=max(1, slots),
        accelerators=max(wants.gpus(ranks), of_target),
        memory_mb=wants.memory_mb or 0,
        exclusive=wants.exclusive,
        hosts=wants.hosts,
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
    return source_of_function(getattr(test, method_name, None))


def source_of_function(function: object) -> tuple[str, int]:
    """The file and line of a function, without its decorators; ("", 0) where it is not Python code."""
    for _ in range(100):  # a cycle of __wrapped__, a user's bug, must not hang the runner
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is None:
            break
        function = wrapped
    code = getattr(function, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)


def project_files(module: ModuleType, cases: Iterable[type]) -> list[str]:
    """The source files that a module's list of tests of these classes depends on.

    They are the module's file and those of its classes' bases. For a module outside of this project, every
    other imported source that is no test module is added, because any may hold a table that tests are made
    from. Files of installed packages are left out, and so are this project's helpers: the cache's key covers
    both.
    """
    classes = {cls for case in cases for cls in case.__mro__}
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
