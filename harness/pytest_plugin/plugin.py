"""The hooks of the pytest plugin. Each calls a decision of its neighbours and applies it to pytest's objects.

Nothing here is imported beyond light modules until a test of the harness has been collected or an option of
the plugin is given.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.configuration import variables
from harness.configuration.configuration import Configuration
from harness.errors import HarnessError, UsageError
from harness.pytest_plugin import options, xdist
from harness.settings import EnvVar, target_given
from harness.system.garbage import PAUSE

# pytest loads these modules too.
pytest_plugins = ("harness.pytest_plugin.functions", "harness.pytest_plugin.exits")

# With an item: whether the report of a failed sub-test has shown its ranks.
_SHOWN = pytest.StashKey[bool]()
# Whether a test file has been imported, or is about to be.
_IMPORTING = pytest.StashKey[bool]()
_CONFIGURATION = pytest.StashKey[Configuration]()
# The statement that imports this library.
_IMPORT = re.compile(rb"^\s*(from|import)\s+harness\b", re.MULTILINE)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Adds the hooks for pytest-xdist; of imported modules in ``pytest_plugins`` pytest warns."""
    pluginmanager.register(xdist, xdist.__name__)


# -- options


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options whose names are this plugin's alone."""
    options.register(parser.getgroup(options.GROUP), shared=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> Generator[None]:
    """Applies the options before any conftest is imported, and outermost, before pytest captures output."""
    namespace = early_config.known_args_namespace
    given = options.given(namespace)
    _apply_file(early_config)
    _apply(early_config, given)
    if options.PDB_RANK.name in given:
        namespace.capture = "no"
    if os.environ.get(EnvVar.DROP_IN) == "1":
        importlib.import_module("harness.dropin").install_at_import()
        _pause_collections(early_config)
    yield
    options.register(parser.getgroup(options.GROUP), shared=True)


def _pause_collections(config: pytest.Config) -> None:
    """Has no garbage collected until the first test runs, or pytest ends."""
    PAUSE.begin()
    # What is frozen is not collected when the interpreter ends, and libraries tell of it as leaked.
    config.add_cleanup(functools.partial(PAUSE.end, freeze=False))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Applies the options that the project's conftest files might have taken."""
    given = options.given(config.option)
    _apply(config, given)
    if target_given(os.environ):
        from harness.targets.current import current

        _usage(current)
    if options.PDB_RANK.name in given:
        _debug_rank(config)


def _apply_file(config: pytest.Config) -> None:
    """Sets the variables that the project's configuration file stands for and the environment lacks."""
    found = _usage(variables.read, os.environ, config.invocation_params.dir)
    config.stash[_CONFIGURATION] = found
    wanted = options.of_file(found)
    _set(config, {name: value for name, value in wanted.items() if name not in os.environ})


def _apply(config: pytest.Config, given: Mapping[str, str]) -> None:
    """Sets the options' environment variables until pytest ends."""
    _set(config, _usage(options.variables, given))


def _set(config: pytest.Config, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        if os.environ.get(name) != value:
            config.add_cleanup(functools.partial(_restore, name, os.environ.get(name)))
            os.environ[name] = value


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _usage(decide: Any, *arguments: Any, **named: Any) -> Any:
    """The result of a decision; pytest's usage error, which is its exit code 4, for the harness's."""
    try:
        return decide(*arguments, **named)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def _debug_rank(config: pytest.Config) -> None:
    """Leaves the terminal to a rank: no capture, no workers."""
    if getattr(config.option, "numprocesses", None) or getattr(config.option, "tx", None):
        raise pytest.UsageError(
            f"{options.PDB_RANK.name} needs the terminal, which workers do not have: leave out -n"
        )
    config.option.capture = "no"


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item) -> bool | None:
    """Leaves out every limit of pytest-timeout's, a mark's too, while a rank has the terminal.

    That plugin knows of debuggers in its own process only.
    """
    return True if options.PDB_RANK.name in options.given(item.config.option) else None


# -- which tests


@pytest.hookimpl(tryfirst=True)
def pytest_collectstart(collector: pytest.Collector) -> None:
    """Starts what ranks are forked from before the first test file is imported, if they import it, too."""
    config = collector.config
    if not isinstance(collector, pytest.Module):
        return
    if not PAUSE.begun and _imports_harness(collector.path):
        _pause_collections(config)
    if config.stash.get(_IMPORTING, False):
        return
    config.stash[_IMPORTING] = True
    alone = not (config.option.collectonly or hasattr(config, "workerinput"))
    if alone and os.environ.get(EnvVar.DROP_IN) == "1":
        from harness.pytest_plugin import early_server

        early_server.start_before_import(config, collector.path)


def _imports_harness(file: Path) -> bool:
    """Whether a test file imports this library by its text, and so torch."""
    try:
        return _IMPORT.search(file.read_bytes()) is not None
    except OSError:  # pytest tells of it
        return False


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects what is in other shards, after ``-k`` and ``-m`` and before ``--lf``."""
    from harness.pytest_plugin import items as kinds
    from harness.runner.selection import shard_variables

    option = getattr(config.option, options.SHARD.dest, None)
    if option is None and not shard_variables.is_sharded(os.environ):
        return
    from harness.pytest_plugin import shards

    timings = getattr(config.option, options.SHARD_TIMINGS.dest, None)
    ours = os.environ.get(EnvVar.DROP_IN) == "1" or kinds.any_of_harness(items)
    try:
        shard = shards.wanted_shard(option, os.environ, ours=ours)
        if shard is None:
            return
        kept, others = shards.split(items, shard, timings, os.environ)
    except UsageError as error:
        xdist.refuse(config, error)
    if others:
        items[:] = kept
        config.hook.pytest_deselected(items=others)
        config.stash[xdist.EMPTY_SHARD] = not kept


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuses environment variables that cannot be used, once, if tests of the harness were collected."""
    from harness.pytest_plugin import items as kinds

    if not kinds.any_of_harness(session.items):
        return
    from harness import environment

    config = session.config
    try:
        variables.check(os.environ, config.stash[_CONFIGURATION].other_variables)
        environment.settings()
    except UsageError as error:
        xdist.refuse(config, error)
    at_terminal = config.option.capture == "no" and not hasattr(config, "workerinput")
    if at_terminal and not os.environ.get(EnvVar.RANK_OUTPUT):
        _apply(config, {options.RANK_OUTPUT.name: "stream"})


# -- running tests


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Starts what ranks are forked from, before pytest's log handlers and before any fixture.

    What was imported until now stays: the garbage collector need not look at it again.
    """
    from harness.pytest_plugin import items as kinds

    config = session.config
    ours = kinds.any_of_harness(session.items)
    if ours or PAUSE.begun:
        PAUSE.end()
    if ours and not config.option.collectonly:
        from harness.pytest_plugin import early_server

        if not session.testsfailed or config.option.continue_on_collection_errors:
            early_server.start_for(session.items, worker=hasattr(config, "workerinput"))
    return (yield)


@pytest.hookimpl(wrapper=True, trylast=True, specname="pytest_runtestloop")
def pytest_runtestloop_ended() -> Generator[None, object, object]:
    """Ends ranks that were kept for more tests, before pytest-cov joins what processes wrote."""
    try:
        return (yield)
    finally:
        if closing := sys.modules.get("harness.system.closing"):
            closing.close_all()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Tells a test on ranks that pytest shows what ranks printed, and by which command it is run again."""
    from harness.pytest_plugin import items as kinds

    case = kinds.running_case(item)
    if case is not None:
        from harness.pytest_plugin import reproduction

        item.stash[_SHOWN] = False  # an earlier attempt's reports have shown that attempt's ranks
        case.output_lines_in_failure = 0
        again = getattr(item, "execution_count", 1)  # by pytest-rerunfailures
        case.rank_log_suffix = f".attempt{again}" if again > 1 else ""
        if not reproduction.has_its_own(case):
            case.rerun_command = functools.partial(str, reproduction.command(item))
    return (yield)


# -- reports


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Gives a test on ranks the harness's text, a section and properties for each rank."""
    from harness.pytest_plugin import items as kinds

    if call.when != "call" or kinds.running_case(item) is None:
        return _with_text((yield), call)
    from harness.pytest_plugin import failure_report

    outcome = failure_report.outcome_of(item)
    if outcome is not None:
        failure_report.add_ranks(item, outcome, output=_output_is_kept())
    report = _with_text((yield), call)
    if item.stash.get(_SHOWN, False):
        report.sections = failure_report.without_rank_sections(report.sections)
    elif report.failed:  # a failed sub-test has a report of its own, before the test's
        item.stash[_SHOWN] = True
    return report


def _output_is_kept() -> bool:
    """Whether what ranks print was not shown as it came."""
    from harness import environment

    return environment.settings().rank_output == "capture"


def _with_text(report: pytest.TestReport, call: pytest.CallInfo[None]) -> pytest.TestReport:
    if call.excinfo is not None and isinstance(call.excinfo.value, HarnessError) and report.longrepr:
        from harness.pytest_plugin import failure_report

        shown = failure_report.longrepr(call.excinfo.value, call.excinfo)
        if shown is not None:
            report.longrepr = shown
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any]) -> None:
    """With ``--pdb``: shows where the rank failed, and says that it has ended and how to debug it."""
    if not node.config.option.usepdb or call.excinfo is None:
        return
    from harness.pytest_plugin import failure_report

    error = call.excinfo.value
    hint = failure_report.debugger_hint(error, options.PDB_RANK.name)
    terminal = node.config.pluginmanager.get_plugin("terminalreporter")
    if hint is not None and terminal is not None:
        terminal.write_line(f"\n{hint}")  # below the letter of the test, of which pytest does not know
    trace = failure_report.where_it_failed(error)
    if trace is not None:
        info = (type(error), error.with_traceback(trace), trace)
        call.excinfo = pytest.ExceptionInfo.from_exc_info(info)
