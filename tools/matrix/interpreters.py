"""The Python interpreters of this machine, of which each minor version's newest one is taken."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# What the tree is for; classifiers of setup.py, compared by a self-test.
MINORS = ("3.10", "3.11", "3.12", "3.13", "3.14")

# pyenv's shims end with an error where no version is chosen; one that hangs is as good as none.
ANSWER_S = 30.0

# Whether there is a lock to be free of is known from 3.13 on; before, it is not a variable of the build.
_QUESTION = """
import platform, sysconfig
free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
print(platform.python_implementation(), platform.python_version(), "free-threaded" if free else "")
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A CPython with a global interpreter lock: its full version ("3.12.1") and its path."""

    version: str
    path: str

    @property
    def minor(self) -> str:
        """The minor version, "3.12"."""
        return ".".join(self.version.split(".")[:2])


def candidates(environ: Mapping[str, str], home: Path) -> list[Path]:
    """The interpreters that may be there, on ``PATH`` and among those of pyenv; nothing is run."""
    versions = Path(environ.get("PYENV_ROOT", home / ".pyenv")) / "versions"
    on_path = [
        Path(folder, f"python{minor}")
        for folder in environ.get("PATH", "").split(os.pathsep)
        for minor in MINORS
    ]
    return [path for path in [*on_path, *sorted(versions.glob("*/bin/python"))] if path.is_file()]


def ask(path: Path) -> Interpreter | None:
    """Runs an interpreter for its version; None for one that does not answer or is of another kind."""
    try:
        answer = subprocess.run(
            [path, "-I", "-c", _QUESTION], capture_output=True, text=True, timeout=ANSWER_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return understood(answer.stdout, path)


def understood(answer: str, path: Path) -> Interpreter | None:
    """The interpreter that gave this answer; None unless it is a CPython release with the lock."""
    match answer.split():
        case ["CPython", version] if version.replace(".", "").isdigit():
            return Interpreter(version, str(path))
    return None


def newest(found: Iterable[Interpreter]) -> Iterator[Interpreter]:
    """The newest of each minor version that the tree is for, the oldest minor version first."""
    of_minor: dict[str, Interpreter] = {}
    for one in found:
        known = of_minor.get(one.minor)
        if known is None or numbers(one.version) > numbers(known.version):
            of_minor[one.minor] = one
    return (of_minor[minor] for minor in MINORS if minor in of_minor)


def numbers(version: str) -> tuple[int, ...]:
    """A release as numbers, by which versions are ordered."""
    return tuple(int(part) for part in version.split("."))
