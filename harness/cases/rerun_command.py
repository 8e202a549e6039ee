"""The ``reproduce:`` command of a failed test: the shell command that runs this one test again."""

from __future__ import annotations

import os
import re
import shlex
import site
import sys
import unittest
from collections.abc import Callable

from harness import bazel_command
from harness.ranks.processes import module_import
from harness.settings import EnvVar


def rerun_command(case: unittest.TestCase) -> str:
    """A command that runs this test alone, with its delays; a case's own ``rerun_command`` goes before."""
    own: Callable[[], str] | None = getattr(case, "rerun_command", None)
    if own is not None:
        return own()
    chaos = os.environ.get(EnvVar.CHAOS, "").strip()
    name = f"{type(case).__qualname__}.{case._testMethodName}"
    by_bazel = bazel_command.command(os.environ, {EnvVar.CHAOS: chaos} if chaos else {})
    if by_bazel is not None:
        return f"{by_bazel} {bazel_command.only(name)}"
    plain = _plain_command(case, name)
    return f"{EnvVar.CHAOS}={chaos} {plain}" if chaos else plain


def _plain_command(case: unittest.TestCase, name: str) -> str:
    module = module_import.reference(type(case).__module__)
    if module.file is not None and _under_pytest(case._testMethodName):
        words = ("pytest", f"{os.path.relpath(module.file)}::{name.replace('.', '::')}")
        return shlex.join(words)
    if module.name != "__main__":
        path = _path_needed(module.name, module.file)
        prefix = f"PYTHONPATH={shlex.quote(path)} " if path is not None else ""
        return f"{prefix}python -m unittest {module.name}.{name}"
    return f"python -m {module.run_as} {name}" if module.run_as else f"python {module.file} {name}"


def _under_pytest(method: str) -> bool:
    """Whether pytest runs the method, without the plugin: its settings may decide what can be imported."""
    running = os.environ.get("PYTEST_CURRENT_TEST", "")  # "tests/test_x.py::Class::method (call)"
    return "_pytest" in sys.modules and re.search(rf"::{re.escape(method)}\b", running) is not None


def _path_needed(name: str, file: str | None) -> str | None:
    """A PYTHONPATH with which a module can be imported by its name; None where Python finds it without."""
    if file is None:
        return None
    levels = name.count(".") + (os.path.basename(file) == "__init__.py")
    directory = os.path.dirname(os.path.abspath(file))
    for _ in range(levels):
        directory = os.path.dirname(directory)
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    known = {os.path.abspath(path) for path in (os.getcwd(), *given, *site.getsitepackages())}
    return None if directory in known else os.pathsep.join([directory, *given])
