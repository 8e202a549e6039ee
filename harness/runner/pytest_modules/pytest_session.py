"""``run_session``: runs pytest inside a process of the runner's, without its terminal and its files.

What listing and running by pytest share. The project's own configuration, plugins and ``conftest.py`` files
count, ``addopts`` too. What the runner does itself is left out: pytest's terminal, cache, reports, signal
handling and processes.
"""

from __future__ import annotations

import os
import types
import unittest
from pathlib import Path
from typing import Any

import pytest

from harness.system import scratch

# Plugins for which the runner has something of its own; their options are accepted and ignored. The last
# three are this project's plugin for runs by pytest alone. Without pytest-xdist, pytest-rerunfailures starts
# no thread, which each worker would have lost.
_REPLACED = (
    *("faulthandler", "junitxml", "pastebin", "debugging", "lfplugin", "nfplugin", "stepwiseplugin"),
    "randomly",
    *("xdist", "xdist.looponfail", "torch_harness", "harness.pytest_plugin.plugin"),
    "harness.pytest_plugin.xdist",
)
# The plugins that run test functions on ranks, and skip files that exit, which are needed here too.
_NEEDED = ("harness.pytest_plugin.functions", "harness.pytest_plugin.exits")
# The attribute of an item that is such a function: the case that runs it.
_CASE = "harness_case"
# The conftest modules that pytest has imported in this process or in the zygote, by path. Another import
# would make a second module, of which the test module, which is not imported again, knows nothing.
_conftests: dict[str, types.ModuleType] = {}


class QuietPlugin:
    """Keeps pytest from acting where the runner does. The plugins that list and run derive from it."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self, early_config: pytest.Config) -> None:
        """Takes plugins out, and puts in the conftest modules that have been imported before."""
        manager = early_config.pluginmanager
        _leave_out(manager)
        for path, module in _conftests.items():
            if _concerns(path, early_config):
                manager.register(module, name=path)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Puts a terminal reporter in place that writes nowhere: plugins ask for it."""
        manager = config.pluginmanager
        _leave_out(manager)
        reporter = manager.get_plugin("terminalreporter")
        if reporter is not None:
            manager.unregister(reporter)
            nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - closed by the cleanup
            config.add_cleanup(nowhere.close)
            manager.register(type(reporter)(config, nowhere), "terminalreporter")

    @pytest.hookimpl(trylast=True)
    def pytest_plugin_registered(self, plugin: object, plugin_name: str) -> None:
        """Keeps conftest modules for the next session in this process or a fork of it."""
        if isinstance(plugin, types.ModuleType) and plugin_name.endswith("conftest.py"):
            _conftests[plugin_name] = plugin


def _leave_out(manager: pytest.PytestPluginManager) -> None:
    for name in _REPLACED:
        if manager.has_plugin(name):
            manager.unregister(name=name)


def _concerns(path: str, config: pytest.Config) -> bool:
    """Whether the conftest at ``path`` is beside or above one of the files that a session collects."""
    directory = Path(path).parent
    return any(directory in Path(file).resolve().parents for file in config.known_args_namespace.file_or_dir)


def run_session(file: str, plugin: QuietPlugin, *arguments: str) -> None:
    """Runs pytest on a file with a plugin. What it has to say of a session that fails is on stderr."""
    private = scratch.scratch()
    # Given last, because the later of two options counts; those of addopts come first.
    options = [
        "--capture=no",
        "--maxfail=0",
        "--import-mode=prepend",
        f"--basetemp={os.path.join(private.path, 'pytest')}",
        "-o",
        f"cache_dir={os.path.join(private.path, 'pytest-cache')}",
        *(word for name in _NEEDED for word in ("-p", name)),
        *arguments,
        file,
    ]
    plugins: list[Any] = [plugin]
    pytest.main(options, plugins=plugins)


def rank_case(item: pytest.Item) -> Any | None:
    """The case that runs a method of a TestCase, or a function on ranks; None for any other function."""
    return getattr(item, _CASE, None) or getattr(item, "instance", None)


def test_id(item: pytest.Item, module: str) -> str:
    """The id of an item that pytest collected from a module.

    That of a TestCase's method is unittest's; other ids are like them: ``module.function[parameters]``,
    ``module.Class.method[parameters]``.
    """
    case = case_of(item)
    if case is not None:
        return f"{case.__module__}.{case.__qualname__}.{item.name}"
    path, bracket, parameters = item.nodeid.partition("[")  # parameters may hold any text
    return ".".join((module, *path.split("::")[1:])) + bracket + parameters


def case_of(item: pytest.Item) -> type[unittest.TestCase] | None:
    """The TestCase that an item is a method of; None where it is no method of one."""
    cls = getattr(item, "cls", None)
    return cls if isinstance(cls, type) and issubclass(cls, unittest.TestCase) else None
