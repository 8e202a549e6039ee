"""``accepted_sections``: what a file beside a test accepts, by the names of its sections.

A line ``== name`` begins a section; its lines follow. ``as_section`` is what a failure shows to be put there.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_BEGINS = "== "


def accepted_sections(path: Path) -> dict[str, list[str]]:
    """The sections of a file by name, each with its lines."""
    sections: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(_BEGINS):
            lines = sections[line.removeprefix(_BEGINS)] = []
        else:
            lines.append(line)
    return sections


def as_section(name: str, lines: Iterable[str]) -> str:
    """A section as it stands in the file."""
    return "\n".join((f"{_BEGINS}{name}", *lines))
