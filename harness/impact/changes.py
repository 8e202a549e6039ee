"""``Change``: a file that has changed, and whether only inside of functions; asked of git."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Change:
    """A changed file, by its name in maps.

    ``inside`` is True where only bodies of functions have changed, ``gone`` where the file is there no more.
    """

    file: str
    inside: bool = False
    gone: bool = False


def named(file: str, path: Path) -> Change:
    """The change of a file that somebody has only named: in its functions, where it has any."""
    source = path.read_text(encoding="utf-8", errors="replace") if file.endswith(".py") else ""
    return Change(file, bool(bodies(source)))


def top_of(directory: Path) -> Path:
    """The top directory of the git repository around a directory. UsageError where there is none."""
    return Path(_git(directory, "rev-parse", "--show-toplevel").rstrip("\n"))


def since(revision: str, top: Path) -> dict[Path, Change]:
    """What differs in the working tree from where it left ``revision``, and the files that git does not know.

    Their names are the paths below ``top``. UsageError where git knows no such revision.
    """
    base = _git(top, "merge-base", revision, "HEAD").strip()
    status = _git(top, "diff", "--name-status", "--no-renames", "-z", base).split("\0")
    found = {}
    for letter, file in zip(status[::2], status[1::2], strict=False):
        found[top / file] = Change(file, _inside(base, file, top) if letter == "M" else False, letter == "D")
    for file in filter(None, _git(top, "ls-files", "--others", "--exclude-standard", "-z").split("\0")):
        found[top / file] = Change(file, False)
    return found


def _git(directory: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=directory, capture_output=True, text=True, check=False, errors="replace"
        )
    except OSError as error:
        raise UsageError(f"--changed asks git, which cannot be started: {error.strerror}") from None
    if done.returncode:
        words = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise UsageError(f"--changed: git {arguments[0]}: {words[0]} (--affected-by FILE needs no git)")
    return done.stdout


def _inside(base: str, file: str, top: Path) -> bool:
    if not file.endswith(".py"):
        return False
    hunks = _HUNK.findall(_git(top, "diff", "-U0", "--no-ext-diff", base, "--", file))
    old = _git(top, "show", f"{base}:{file}")
    new = (top / file).read_text(encoding="utf-8", errors="replace")
    return bool(hunks) and all(
        _covers(bodies(source), hunk[at], hunk[at + 1])
        for at, source in ((0, old), (2, new))
        for hunk in hunks
    )


def _covers(lines: frozenset[int], first: str, count: str) -> bool:
    begin, number = int(first), int(count or 1)
    return lines.issuperset(range(begin, begin + number))


def bodies(source: str) -> frozenset[int]:
    """The lines of functions' bodies; none where the source is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return frozenset()
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(line for function in functions for line in _body(function))


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterable[int]:
    # A body that begins in the line of the signature may have changed in that.
    first = max(function.body[0].lineno, function.lineno + 1)
    return range(first, (function.end_lineno or first) + 1)
