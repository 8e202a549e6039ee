"""``Roots``: how maps and changes call files: ``torch/nn/functional.py``, ``tests/test_sums.py``."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError


@dataclass(frozen=True, slots=True)
class Roots:
    """The directory of the project, and those of the packages whose files go by the package's name.

    Of the project's own files, the names are relative to its directory.
    """

    project: Path
    packages: Mapping[str, Path]

    def name(self, path: Path) -> str | None:
        """The name of a file; None where it belongs to none of these directories."""
        for package, directory in self.packages.items():
            if path.is_relative_to(directory):
                return f"{package}/{path.relative_to(directory).as_posix()}"
        if path.is_relative_to(self.project):
            name = path.relative_to(self.project)
            return None if "site-packages" in name.parts else name.as_posix()
        return None

    def path(self, name: str) -> Path:
        """Where the file of this name is, or would be."""
        package, _, rest = name.partition("/")
        directory = self.packages.get(package)
        return directory / rest if directory is not None and rest else self.project / name

    @property
    def directories(self) -> tuple[Path, ...]:
        """Below what directories files have a name."""
        return (*self.packages.values(), self.project)

    def named(self, text: str, cwd: Path) -> str:
        """The name of a file that a user names: by its path, or as ``torch/...``; it need not be Python's.

        UsageError where there is no such file.
        """
        path = Path(os.path.abspath(cwd / text))
        name = self.name(path.resolve()) if path.is_file() else text
        if name is None:
            raise UsageError(f"{text} is neither in torch, nor in this harness, nor below {self.project}")
        if name.endswith(".py") and not self.path(name).is_file():
            raise UsageError(f"{text}: no such file, neither here nor as one of torch's")
        return name


def roots_of(project: Path, suites: Path) -> Roots:
    """Those of a project here; ``suites`` is the directory that has the conformance suites."""
    # In a wheel the suites are below the harness, so they come first.
    packages = {"suites": suites.resolve() / "suites", "harness": Path(__file__).resolve().parents[1]}
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin:
        packages = {"torch": Path(torch.origin).resolve().parent, **packages}
    return Roots(project.resolve(), packages)
