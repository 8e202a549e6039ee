"""``Imports``: which files of a project import which others, as their sources say it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path


class Imports:
    """The imports of files, each of which is read once.

    ``roots`` are the entries of ``sys.path`` that lead to the project's files. Files that are not ``below`` a
    directory are not followed.
    """

    def __init__(self, roots: Iterable[Path], below: Path) -> None:
        self._roots, self._below = tuple(roots), below
        self._known: dict[Path, frozenset[Path]] = {}

    def reached(self, file: Path) -> set[Path]:
        """The file and all that it imports, directly or through others."""
        found, pending = {file}, [file]
        while pending:
            new = self._imports(pending.pop()) - found
            found |= new
            pending += new
        return found

    def _imports(self, file: Path) -> frozenset[Path]:
        if file not in self._known:
            try:
                tree = ast.parse(file.read_bytes())
            except (OSError, SyntaxError, ValueError):
                tree = ast.Module([], [])
            found = {path for name, base in _names(tree, file) for path in self._files(name, base)}
            self._known[file] = frozenset(path for path in found if path.is_relative_to(self._below))
        return self._known[file]

    def _files(self, name: str, base: Path | None) -> Iterator[Path]:
        """The files that an import of this name executes: the module's, and of the packages around it."""
        parts = name.split(".") if name else []
        for root in self._roots if base is None else (base,):
            for end in range(len(parts) + 1):
                place = root.joinpath(*parts[:end])
                candidates = (place / "__init__.py", *([place.with_name(f"{place.name}.py")] if end else []))
                yield from (path for path in candidates if path.is_file())


def _names(tree: ast.Module, file: Path) -> Iterator[tuple[str, Path | None]]:
    """The names that are imported anywhere in a source, each with the directory that it is relative to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = file.parents[node.level - 1] if node.level else None
            stem = node.module or ""
            for alias in node.names:  # each may be a module of that package
                yield f"{stem}.{alias.name}".strip("."), base
