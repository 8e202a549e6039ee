"""The string constants in the sources of ``harness`` and ``tools``, for tests that a name has one home."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]


def spelled_outside(home: str, pattern: str) -> list[str]:
    """Each place, as "file:line: string", where a file other than ``home`` has a string like ``pattern``.

    Only a string that matches the regular expression as a whole counts; a message or a docstring may mention
    a name.
    """
    return [place for own, place, text in _strings() if own != home and re.fullmatch(pattern, text)]


def _strings() -> Iterator[tuple[str, str, str]]:
    """The file of each string constant, its place with the string, and the string."""
    for folder in ("harness", "tools"):
        for path in sorted((TREE / folder).rglob("*.py")):
            own = path.relative_to(TREE).as_posix()
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield own, f"{own}:{node.lineno}: {node.value}", node.value
