"""Runs a file or module as this process's ``__main__``, as ``python FILE`` and ``python -m MODULE`` do."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
import types
import unittest
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

from harness.errors import UsageError
from harness.system.garbage import PAUSE


def run(target: str, arguments: list[str], prepare: Callable[[], object]) -> None:
    """Runs a test file or module with unittest's arguments; ends by SystemExit, as unittest's main does.

    ``prepare`` is called before the file's own code, with ``__main__`` and ``sys.argv`` in place. Where the
    file has an ``if __name__ == "__main__"`` block, that block runs the tests; else unittest's main does. No
    garbage is collected until the tests begin, and what exists then is left out of later collections.
    UsageError where there is no such file or module.
    """
    file, spec = find(target)
    PAUSE.begin()
    _end_pause_when_tests_begin()
    module = _become(file, spec, arguments)
    with open(file, "rb") as stream:
        source = stream.read()
    prepare()
    exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)
    if not runs_itself(source):
        unittest.main(module=module, argv=[file, *arguments])


def _end_pause_when_tests_begin() -> None:
    """Has unittest's main, which upstream's ``run_tests`` calls too, end the pause before it runs tests."""
    run_tests = unittest.TestProgram.runTests

    def run_tests_after_pause(program: unittest.TestProgram) -> None:
        PAUSE.end()
        run_tests(program)

    setattr(unittest.TestProgram, "runTests", run_tests_after_pause)  # noqa: B010 - mypy refuses the assignment


def find(target: str) -> tuple[str, ModuleSpec | None]:
    """The source file, and the spec where ``target`` is a module's name; UsageError where it is neither."""
    if os.path.isfile(target):
        return os.path.abspath(target), None
    try:
        spec = importlib.util.find_spec(target) if _dotted(target) else None
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None or not os.path.isfile(spec.origin):
        raise UsageError(f"{target!r} is neither a Python file nor a module that can be imported")
    return os.path.abspath(spec.origin), spec


def _dotted(target: str) -> bool:
    return all(part.isidentifier() for part in target.split("."))


def _become(file: str, spec: ModuleSpec | None, arguments: list[str]) -> types.ModuleType:
    """Makes the file this process's ``__main__``, before upstream's modules read that at import."""
    module = types.ModuleType("__main__")
    attributes: dict[str, Any] = {"__file__": file, "__spec__": spec, "__builtins__": __builtins__}
    if spec is not None:
        attributes["__package__"] = spec.name if spec.submodule_search_locations else spec.parent
    module.__dict__.update(attributes)
    sys.modules["__main__"] = module
    sys.argv = [file, *arguments]
    if spec is None:
        sys.path[0:1] = [os.path.dirname(file), *sys.path[0:1]]
    return module


def runs_itself(source: bytes) -> bool:
    """Whether the file has a top-level ``if`` that tests ``__name__``."""
    conditions = [node.test for node in ast.parse(source).body if isinstance(node, ast.If)]
    names = [n.id for test in conditions for n in ast.walk(test) if isinstance(n, ast.Name)]
    return "__name__" in names
