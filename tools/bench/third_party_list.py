"""The list of other projects' test files: repositories, commits, files, and verdicts that have a reason.

The list is a JSON file; ``tools/bench/third_party.json`` is this project's own. The files are fetched into a
directory outside of the tree, or are there already; none is part of the tree.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError

_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the verdicts on a test differ although the drop-in's is right; both must be these."""

    file: str
    test: str
    upstream: str
    ours: str
    reason: str


@dataclass(frozen=True, slots=True)
class Repository:
    """A public repository ``owner/name`` at a commit, and which of its test files are run.

    ``python_path`` are directories of the checkout, ``requirements`` what pip installs beside it, without the
    dependencies of these: torch is that of this interpreter.
    """

    name: str
    commit: str
    files: tuple[str, ...]
    python_path: tuple[str, ...] = (".",)
    requirements: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class ThirdPartyFile:
    """A test file to run, relative to ``root``, the working directory; with ``python_path`` and reasons."""

    root: Path
    file: str
    python_path: tuple[Path, ...] = ()
    reasons: tuple[Reason, ...] = ()


def load(path: Path) -> tuple[Repository, ...]:
    """The repositories in a list; UsageError for a file that is none."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as a list of repositories: {error}") from error
    try:
        found = tuple(_repository(each) for each in content["repositories"])
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path} is no list of repositories: {type(error).__name__}: {error}; see "
            "tools/bench/third_party.json"
        ) from error
    return found


def _repository(entry: dict[str, Any]) -> Repository:
    fields: dict[str, Any] = dict(entry)
    for key in ("files", "python_path", "requirements"):
        if key in fields:
            fields[key] = _texts(fields[key], key)
    fields["reasons"] = reasons = tuple(Reason(**each) for each in entry.get("reasons", ()))
    repository = Repository(**fields)
    if not _NAME.fullmatch(repository.name) or not _COMMIT.fullmatch(repository.commit):
        raise ValueError(f"{repository.name} at {repository.commit}: write owner/name and a whole commit")
    for reason in reasons:
        if reason.file not in repository.files:
            raise ValueError(f"a reason is about {reason.file}, which is not among the files")
        if not all(isinstance(text, str) and text for text in dataclasses.astuple(reason)):
            raise ValueError(f"the reason about {reason.test} has an empty field")
    return repository


def _texts(value: Any, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise ValueError(f"{key} is no list of texts")
    return tuple(value)


def files_of(repository: Repository, checkouts: Path) -> list[ThirdPartyFile]:
    """The repository's files, fetched if they are not there; UsageError where that fails.

    A checkout is ``OWNER+NAME`` in the directory, and what it needs beside it ``OWNER+NAME.packages``. One
    that is there is taken as it is, but for a git work tree of another commit.
    """
    root = (checkouts / repository.name.replace("/", "+")).resolve()
    if not root.exists():
        _fetch(repository, root)
    _check_commit(repository, root)
    packages = root.with_name(f"{root.name}.packages")
    if repository.requirements and not packages.exists():
        _install(repository, packages)
    python_path = (*(root / each for each in repository.python_path), packages)
    for file in repository.files:
        if not (root / file).is_file():
            raise UsageError(f"{root / file} does not exist: is this {repository.name} at its commit?")
    return [
        ThirdPartyFile(root, file, python_path, tuple(r for r in repository.reasons if r.file == file))
        for file in repository.files
    ]


def _fetch(repository: Repository, root: Path) -> None:
    part = root.with_name(f"{root.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    url = f"https://github.com/{repository.name}"
    for words in (["init", "-q"], ["fetch", "-q", "--depth=1", url, repository.commit]):
        _run(["git", *words], part, f"{repository.name} cannot be fetched; have a copy of it at {root}")
    _run(["git", "checkout", "-q", repository.commit], part, f"{repository.name} cannot be checked out")
    part.rename(root)


def _check_commit(repository: Repository, root: Path) -> None:
    if (root / ".git").exists():
        head = _run(["git", "rev-parse", "HEAD"], root, f"{root} is no git work tree").strip()
        if head != repository.commit:
            raise UsageError(f"{root} is at commit {head}, the list says {repository.commit}: remove it")


def _install(repository: Repository, packages: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(packages)]
    try:
        _run([*pip, *repository.requirements], packages.parent, f"{repository.name}: pip install failed")
    except UsageError:
        shutil.rmtree(packages, ignore_errors=True)
        raise


def _run(command: Sequence[str], directory: Path, failure: str) -> str:
    """What a command prints; UsageError with the last line of its errors where it fails."""
    environ = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            command, cwd=directory, env=environ, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise UsageError(f"{failure}: {error}") from error
    if done.returncode != 0:
        why = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise UsageError(f"{failure}: {why}")
    return done.stdout
