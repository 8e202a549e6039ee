"""The hooks for pytest-xdist: the slots that its workers share, and what a worker tells the controller.

``plugin.py`` registers this module, also where pytest-xdist is not installed.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from harness.errors import UsageError
from harness.pytest_plugin import reproduction
from harness.settings import target_given

# With a session's configuration: that its shard is empty, and what the tests' slots are taken from.
EMPTY_SHARD = pytest.StashKey[bool]()
_BUDGET = pytest.StashKey[Any]()
_TEMPORARY = pytest.StashKey[Path]()
# What the controller tells its workers, and what they tell it.
_DIRECTORY = "torch_harness_slots"
_REFUSAL = "torch_harness_refusal"
_EMPTY = "torch_harness_empty_shard"


def refuse(config: pytest.Config, error: UsageError) -> NoReturn:
    """Ends the run with pytest's usage error, and has a worker tell its controller."""
    if hasattr(config, "workeroutput"):
        config.workeroutput[_REFUSAL] = str(error)
    raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Names the directory of the workers' budget, which the first worker that needs it makes.

    And says how the run was started, which failures name.
    """
    node.workerinput[reproduction.STARTED] = reproduction.started(node.config)
    stash = node.config.stash
    if _TEMPORARY not in stash:
        stash[_TEMPORARY] = Path(tempfile.gettempdir(), f"torch-harness-{node.workerinput['testrunuid']}")
        node.config.add_cleanup(functools.partial(shutil.rmtree, stash[_TEMPORARY], ignore_errors=True))
    node.workerinput[_DIRECTORY] = str(stash[_TEMPORARY])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Takes over from a worker what it refused, and that its shard is empty."""
    told = getattr(node, "workeroutput", None) or {}
    if told.get(_REFUSAL):
        raise pytest.UsageError(told[_REFUSAL])
    if told.get(_EMPTY):
        node.config.stash[EMPTY_SHARD] = True


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """An empty shard of a run that is not empty is no error."""
    config = session.config
    empty = config.stash.get(EMPTY_SHARD, False)
    if hasattr(config, "workeroutput"):
        config.workeroutput[_EMPTY] = empty
    elif empty and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK
    yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Opens the budget of a worker that has tests of the harness."""
    from harness.pytest_plugin import items as kinds

    if not session.config.option.collectonly and kinds.any_of_harness(session.items):
        session.config.stash[_BUDGET] = _budget(session)
    return (yield)


def _budget(session: pytest.Session) -> Any | None:
    """This worker's access to the budget of a pytest-xdist run; None where there is one process."""
    given = getattr(session.config, "workerinput", {})
    directory = given.get(_DIRECTORY)
    if directory is None or not os.path.isdir(os.path.dirname(directory)):
        return None  # one process, or a worker on another machine
    from harness.pytest_plugin import items as kinds
    from harness.pytest_plugin.slots import SlotBudget

    demands = [kinds.demand_of(item) for item in session.items]
    return SlotBudget(
        Path(directory),
        shared_capacity(),
        worker=int(str(given["workerid"]).removeprefix("gw")),
        workers=int(given["workercount"]),
        alone=any(demand is not None and demand.exclusive for demand in demands),
    )


def shared_capacity() -> Any:
    """What the workers of a pytest-xdist run share out: processors, and the devices of the run's target.

    Kept ranks stay on the devices that they have used, so no test is handed devices of its own: tests that
    take any run one after the other.
    """
    from harness.runner.scheduling.capacity import capacity
    from harness.system import processors
    from harness.targets import device_set
    from harness.targets.current import current

    slots = processors.tests_at_once(processors.available())
    devices = device_set.of_target(current(), os.environ) if target_given(os.environ) else None
    return capacity(slots, os.environ, of_target=devices and replace(devices, variable=""))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Waits for the test's slots, outside of every time limit and fixture."""
    budget = item.config.stash.get(_BUDGET, None)
    if budget is None:
        return (yield)
    from harness.pytest_plugin import items as kinds

    demand = None if kinds.skipped_by_mark(item) else kinds.demand_of(item)
    with budget.held(demand):
        return (yield)
