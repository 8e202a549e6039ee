"""``Document``: a project's configuration file, found from a directory upwards, and the lines of its keys.

The nearest directory with ``torch-harness.toml``, or with a ``pyproject.toml`` that has a table
``[tool.torch-harness]``, has the file. Nothing is merged with files further up.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError

OWN_FILE = "torch-harness.toml"
PYPROJECT = "pyproject.toml"
# The table of this harness in pyproject.toml.
TABLE = ("tool", "torch-harness")

Path_ = tuple[str | int, ...]  # of a value in the file: names of tables and keys, numbers in arrays


@dataclass(frozen=True, slots=True)
class Document:
    """A configuration file: ``table`` is the harness's part of it.

    ``lines`` maps the path of a key below that table to its line in the file, counted from 1.
    """

    path: Path
    table: Mapping[str, Any]
    lines: Mapping[Path_, int]

    def where(self, *path: str | int) -> str:
        """``file:line`` of a key, or of the table around it; the file alone where no line is known."""
        for end in range(len(path), 0, -1):
            line = self.lines.get(path[:end])
            if line is not None:
                return f"{self.path.name}:{line}"
        return self.path.name


def find(directory: Path) -> Document | None:
    """The configuration that holds in a directory; None where neither it nor a directory above has one.

    UsageError where the file is no TOML, or where one directory has two of them.
    """
    for place in (directory, *directory.parents):
        own, shared = place / OWN_FILE, place / PYPROJECT
        of_pyproject = _read(shared, TABLE) if _may_configure(shared) else None
        if not own.is_file():
            if of_pyproject is not None:
                return of_pyproject
        elif of_pyproject is not None:
            raise UsageError(f"{own} and [tool.torch-harness] in {shared} both configure the tests: keep one")
        else:
            return read(own)
    return None


def read(path: Path) -> Document:
    """The configuration in a file: all of it, or, of a ``pyproject.toml``, the harness's table.

    UsageError where there is no such file, or no such table in it, or where it is no TOML.
    """
    shared = path.name == PYPROJECT
    found = _read(path, TABLE if shared else ())
    if found is None:
        raise UsageError(f"{path} has no table [tool.torch-harness]")
    if not shared and any(place[: len(TABLE)] == TABLE for place in found.lines):
        raise UsageError(
            f"{found.where(*TABLE)}: [tool.torch-harness] is for {PYPROJECT}; here, leave it out"
        )
    return found


def _may_configure(path: Path) -> bool:
    """Whether a ``pyproject.toml`` names the harness at all; most do not, and need not be parsed."""
    try:
        return path.is_file() and TABLE[-1] in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _read(path: Path, table: tuple[str, ...]) -> Document | None:
    # Imported where there is a file to parse: its patterns are a tenth of what the controller imports.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # the same parser, under its name before Python 3.11

    try:
        text = path.read_text(encoding="utf-8")
        value: Any = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"the configuration file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is no TOML: {error}") from None
    for name in table:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, dict):
        return None
    lines = {place[len(table) :]: line for place, line in _lines(text) if place[: len(table)] == table}
    return Document(path, value, lines)


# -- lines of keys, which the parser does not tell

_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_NAMES = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_ELEMENT = re.compile(rf"\s*\[\[\s*({_NAMES})\s*\]\]")
_HEADER = re.compile(rf"\s*\[\s*({_NAMES})\s*\]")
_ENTRY = re.compile(rf"\s*({_NAMES})\s*=")


def _lines(text: str) -> Iterator[tuple[Path_, int]]:
    """Yields each table and key with its line.

    A line within a text of several lines may look like a key. It then gives a wrong line in a message and
    nothing else.
    """
    table: Path_ = ()
    last: dict[Path_, int] = {}  # of each array of tables, the number of the last one
    seen: set[Path_] = set()
    for number, line in enumerate(text.splitlines(), 1):
        element, header, entry = _ELEMENT.match(line), _HEADER.match(line), _ENTRY.match(line)
        if element:
            array = _within(_parts(element[1]), last, itself=False)
            last[array] = last.get(array, -1) + 1
            place = table = (*array, last[array])
        elif header:
            place = table = _within(_parts(header[1]), last)
        elif entry:
            place = (*table, *_parts(entry[1]))
        else:
            continue
        if place not in seen:
            seen.add(place)
            yield place, number


def _parts(names: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_NAME, names)]


def _within(names: list[str], last: Mapping[Path_, int], *, itself: bool = True) -> Path_:
    """The path of a table, with the number of the last element of each array of tables that it is in."""
    place: Path_ = ()
    for position, name in enumerate(names, 1):
        place = (*place, name)
        if place in last and (itself or position < len(names)):
            place = (*place, last[place])
    return place
