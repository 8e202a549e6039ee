"""Digests of source files, by which runs on several machines tell whether they test the same source tree."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

# Hexadecimal digits of a digest: enough that two trees by chance never have the same.
DIGITS = 16
HARNESS = "harness"


def python_files(directory: str | Path) -> list[str]:
    """The paths of the Python files below a directory, sorted; no link to a directory is followed.

    Every run looks at the thousand of the harness and the suites; ``Path.rglob`` takes ten times as long.
    """
    found: list[str] = []
    for place, _, names in os.walk(directory):
        found += [os.path.join(place, name) for name in names if name.endswith(".py")]
    return sorted(found)


def of_files(files: Iterable[str | Path]) -> str:
    """The digest of the contents of files, in the order given; a file that cannot be read counts as empty."""
    found = hashlib.sha256()
    for file in files:
        try:
            with open(file, "rb", buffering=0) as opened:
                content = opened.readall()
        except OSError:
            content = b""
        found.update(hashlib.sha256(content).digest())
    return found.hexdigest()[:DIGITS]


def below(directory: Path) -> str:
    """The digest of the Python files below a directory, with their names.

    Of the directory, wherever it is.
    """
    files = python_files(directory)
    names = "\n".join(file[len(str(directory)) :] for file in files)
    return hashlib.sha256(f"{of_files(files)} {names}".encode(errors="surrogateescape")).hexdigest()[:DIGITS]


def of_harness() -> str:
    """The digest of this harness."""
    return below(Path(__file__).resolve().parent)


def of_modules(sources: Mapping[str, Path]) -> dict[str, str]:
    """The digests of the harness, of test modules, by their names, and of what lies beside them.

    The other Python files of a module's directory, its helpers, have one digest under the directory's name.
    """
    found = {HARNESS: of_harness()}
    directories = {file.parent: module.rpartition(".")[0] for module, file in sources.items()}
    for directory, package in directories.items():
        helpers = (file for file in directory.glob("*.py") if not file.name.startswith("test_"))
        found[f"{package or '.'}/"] = of_files(sorted(helpers))
    found.update((module, of_files([file])) for module, file in sources.items())
    return found


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, ...]:
    """The names that both have with different digests, sorted.

    A name that only one of them has is no difference.
    """
    return tuple(sorted(name for name in one.keys() & other.keys() if one[name] != other[name]))
