"""When the server that ranks are forked from is started, before any fixture has run in this process.

A fork inherits what fixtures have made, such as functions that monkeypatch has replaced or a fake process
group, and pytest's log handlers and recorded warnings. So the server is forked when all tests are collected
and none has begun.
Where this process cannot be forked because it has threads (a worker of pytest-xdist), the server is a new
interpreter, which inherits nothing whenever it is started.

Of a test file that ranks import themselves the server is forked before pytest imports it, where that is the
first.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from harness import environment
from harness.pytest_plugin import items as kinds
from harness.runner.selection.module_names import import_root, module_of_path


def start_for(items: Iterable[pytest.Item], *, worker: bool) -> None:
    """Starts the server if one of the items will need it.

    A worker of pytest-xdist, which may get none of these items, leaves a new interpreter to the first test. A
    server that cannot be started is the error of the first test on ranks, not of this call.
    """
    needing = next(filter(_launches, items), None)
    if needing is None:
        return
    from harness.system.fork_safety import is_clean

    if not worker or is_clean():
        kinds.running_case(needing).start_server()  # type: ignore[union-attr]  # it has ranks


def start_before_import(config: pytest.Config, file: Path) -> None:
    """Starts the server before pytest imports the first test file, if its ranks import that file themselves.

    What the file imports first is imported here, from where pytest would, and its output is kept as pytest's.
    """
    if config.getoption("--import-mode") != "prepend":
        return
    module, root = module_of_path(file), str(import_root(file))
    if root != sys.path[0]:
        sys.path.insert(0, root)
    before_import = importlib.import_module("harness.dropin.before_import")
    with contextlib.ExitStack() as stack:
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.resume_global_capture()
            stack.callback(capture.suspend_global_capture)
        ready = before_import.prepare(module, str(file))
    if ready:
        before_import.start_server(module)


def _launches(item: pytest.Item) -> bool:
    """Whether the item will start processes as its ranks: not one that a mark skips."""
    modes = kinds.rank_modes(item)
    if not modes:
        return False
    from harness.ranks.modes import LAUNCHED, chosen_mode

    return chosen_mode(modes, environment.settings()) in LAUNCHED and not kinds.skipped_by_mark(item)
