"""``accepted_sections``: what a file beside a test accepts, by the names of its sections.

A line ``== name`` begins a section; its lines follow. ``as_section`` is what a failure shows to be put there.
``check_section`` compares one; ``check_sections`` is for a file whose names are all that there is to try.
``add_parts`` makes several tests.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

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


def check_section(
    case: unittest.TestCase, sections: Mapping[str, list[str]], name: str, found: list[str]
) -> None:
    """Check, as a sub-test, that this section has what was found."""
    with case.subTest(name):
        case.assertEqual(found, sections.get(name), as_section(name, found))


def check_sections(
    case: unittest.TestCase,
    path: Path,
    answer: Callable[[str], list[str]],
    part: int = 0,
    parts: int = 1,
) -> None:
    """Check that each section of a file is what ``answer`` gives for its name; a file without one fails.

    Where a test is one of several ``parts``, it has every so many sections, from that of number ``part`` on.
    """
    sections = accepted_sections(path)
    names = list(sections)[part::parts]
    case.assertTrue(names, f"{path.name} has no section")
    for name in names:
        check_section(case, sections, name, answer(name))


def add_parts(case: type, parts: int) -> None:
    """Add a test for each of so many parts to a class, whose ``check_part`` it calls with the number."""
    for number in range(parts):

        def test(self: Any, part: int = number) -> None:
            self.check_part(part)

        test.__name__ = f"test_part_{number}"
        test.__qualname__ = f"{case.__qualname__}.{test.__name__}"
        setattr(case, test.__name__, test)
