"""What has to be equal on all hosts of a run: torch, Python, the harness, the source tree that is tested."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

# Files of the tree that are compared at most: who starts in a home directory does not wait for all of it.
_MOST_FILES = 20_000
# Folders with code of others, or with what tests write.
_LEFT_OUT = frozenset({"site-packages", "node_modules", "__pycache__", "build", "dist"})
_PACKAGE = Path(__file__).resolve().parents[1]


def versions(directory: Path) -> dict[str, str]:
    """What is to be compared, by what it is of. ``directory`` is the working directory of the run."""
    return {
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "torch": _torch(),
        "torch-harness": _digest(_PACKAGE),
        "the source tree": _digest(directory),
    }


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """A line for each thing that differs, from the view of the first."""
    return [
        f"{name} is {theirs.get(name, 'unknown')} there and {ours.get(name, 'unknown')} here"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]


def _torch() -> str:
    """The version of torch and its commit, from its files: torch is not imported for it."""
    found = importlib.util.find_spec("torch")
    if found is None or not found.origin:
        return "absent"
    file = Path(found.origin).with_name("version.py")
    if not file.is_file():
        return "unknown"
    text = file.read_text(encoding="utf-8")
    names = ("__version__", "git_version")
    values = (re.search(rf"^{name}\b[^=]*=\s*['\"]([^'\"]*)['\"]", text, re.MULTILINE) for name in names)
    return " ".join(value.group(1)[:24] for value in values if value)


def _digest(directory: Path) -> str:
    """A short digest of the Python files below a directory: their names and what is in them."""
    digest = hashlib.sha256()
    for number, path in enumerate(_python_files(directory)):
        if number == _MOST_FILES:
            break
        digest.update(os.path.relpath(path, directory).encode(errors="surrogateescape") + b"\0")
        try:
            with open(path, "rb") as file:
                digest.update(hashlib.sha256(file.read()).digest())
        except OSError as error:
            digest.update(repr(error.errno).encode())
    return digest.hexdigest()[:16]


def _python_files(directory: Path) -> Iterator[str]:
    skipped = sys.prefix  # a virtual environment in the tree
    for root, folders, files in os.walk(directory):
        folders[:] = sorted(
            folder
            for folder in folders
            if not folder.startswith(".")
            and folder not in _LEFT_OUT
            and os.path.join(root, folder) != skipped
        )
        yield from (os.path.join(root, name) for name in sorted(files) if name.endswith(".py"))
