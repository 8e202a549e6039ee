"""Finds the files of a project's own tests by the names that runs print: ``test_x.Case.test_y``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.runner.selection.module_names import module_of_path
from harness.runner.selection.named_tests import files_of_tests


def with_paths(names: Iterable[str], places: Sequence[str], cwd: Path) -> list[str]:
    """The names; where one begins with a test module below one of the ``places``, with its path instead.

    ``places`` are files and directories, relative to ``cwd``. Only the leading parts of a name that are
    identifiers can name a module; what exists as a path stays. UsageError for a module of several files.
    """
    names = list(names)
    if not places or all(os.path.exists(cwd / name.partition("::")[0]) for name in names):
        return names
    files: dict[str, list[str]] = {}
    for file in _files(places, cwd):
        files.setdefault(module_of_path(file), []).append(os.path.relpath(file, cwd))
    return [_with_path(name, files, cwd) for name in names]


def _files(places: Sequence[str], cwd: Path) -> list[Path]:
    paths = [(cwd / place).resolve() for place in places]
    below = itertools.chain.from_iterable(
        [path] if path.is_file() else files_of_tests(path) for path in paths
    )
    return list(dict.fromkeys(below))


def _with_path(name: str, files: dict[str, list[str]], cwd: Path) -> str:
    if os.path.exists(cwd / name.partition("::")[0]):
        return name
    parts = list(itertools.takewhile(str.isidentifier, name.split(".")))
    modules = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    module = next((module for module in modules if module in files), None)
    if module is None:
        return name
    if len(files[module]) > 1:
        raise UsageError(f"{name!r} may be any of {', '.join(files[module])}: write the path")
    test = name[len(module) + 1 :]
    return f"{files[module][0]}::{test}" if test else files[module][0]
