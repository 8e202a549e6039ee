"""``patched_files``: which files a planted fault changes, found by planting it in a fork of this process.

What the modules of torch, the suites and the harness and their classes have before is compared with what they
have afterwards. The file of a function that was replaced is where somebody would have made that fault. A
fault that replaces a kernel or a method of C++ changes none.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import multiprocessing
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path

from suites.planting import Mutant

_WATCHED = ("torch", "suites", "harness")


def patched_files(mutant: Mutant) -> frozenset[Path]:
    """The files whose functions a fault replaces; this process stays as it is but for modules it imports."""
    files, imported = _in_fork(mutant)
    if imported:  # what planting imported was not there to be compared
        for name in imported:
            importlib.import_module(name)
        files, _ = _in_fork(mutant)
    return files


def _in_fork(mutant: Mutant) -> tuple[frozenset[Path], tuple[str, ...]]:
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)

    def work() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of each kernel that is replaced
            sending.send(_planted(mutant))

    process = context.Process(target=work)
    process.start()
    sending.close()
    try:
        found: tuple[frozenset[Path], tuple[str, ...]] = receiving.recv()
        return found
    finally:
        process.join()


def _planted(mutant: Mutant) -> tuple[frozenset[Path], tuple[str, ...]]:
    modules = _modules()
    before = {name: dict(vars(owner)) for name, owner in _owners(modules)}
    mutant.plant(lambda: None)
    files = set()
    for name, owner in _owners(modules):
        for attribute, value in before.get(name, {}).items():
            if vars(owner).get(attribute) is not value and (file := _file(value)):
                files.add(Path(file).resolve())
    # In the order in which they were imported: outside of it, some of torch's modules cannot be.
    return frozenset(files), tuple(name for name in _modules() if name not in modules)


def _modules() -> dict[str, types.ModuleType]:
    return {
        name: module
        for name, module in tuple(sys.modules.items())
        if name.partition(".")[0] in _WATCHED and isinstance(module, types.ModuleType)
    }


def _owners(modules: dict[str, types.ModuleType]) -> Iterator[tuple[str, object]]:
    """The modules, and the classes that they define, each by its name."""
    for name, module in modules.items():
        yield name, module
        for attribute, value in tuple(vars(module).items()):
            if issubclass(type(value), type) and vars(value).get("__module__") == name:
                yield f"{name}:{attribute}", value


def _file(value: object) -> str | None:
    """The file of a function, in whatever it is wrapped; None where it is none of Python's."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    elif isinstance(value, functools.partial):
        value = value.func
    code = getattr(inspect.unwrap(value), "__code__", None) if callable(value) else None
    return code.co_filename if isinstance(code, types.CodeType) else None
