"""``Feature``: what a whole test tries, as the reports about a target show it; a case says it of its tests.

A case with a method ``conformance_feature`` has each of its tests in a section of the report, in the row and
the columns that the method's answer names. What becomes of the test is what becomes of the cell. The runner
asks when it lists tests, so a test that the target does not declare is in the report too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_WORLD_SIZE = re.compile(r"WorldSize\d+")
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+")
# What names of classes have that says nothing of their feature.
_EMPTY = {"test", "tests", "case", "bodies"}
# The coordinates of a cell that say where it stands, which are no columns.
SECTION, TEST = "section", "test"


@dataclass(frozen=True, slots=True)
class Feature:
    """One test's cell: the section of the report, the row, and pairs (coordinate, value) for the column."""

    section: str
    row: str
    columns: tuple[tuple[str, str], ...] = ()


def feature_of(test: object) -> Feature | None:
    """What a test says that it tries; None where it says nothing."""
    ask = getattr(test, "conformance_feature", None)
    return ask() if callable(ask) else None


def of_class(test: Any, section: str, **columns: str) -> Feature:
    """The feature of a test by the class that it is written in, which may be a base of its own."""
    method = getattr(type(test), test._testMethodName)
    owner = getattr(method, "__qualname__", type(test).__qualname__).rpartition(".")[0].rpartition(".")[2]
    return Feature(section, words(owner or type(test).__name__), tuple(columns.items()))


def of_method(test: Any, section: str, **columns: str) -> Feature:
    """The feature of a test by the name of its method."""
    return Feature(section, words(test._testMethodName), tuple(columns.items()))


def words(name: str) -> str:
    """The words of a name: ``DdpNoSyncTest`` is "ddp no sync". What is in capitals stays so."""
    found = _WORDS.findall(_WORLD_SIZE.sub("", name.replace("_", " ")))
    kept = [word if word.isupper() and len(word) > 1 else word.lower() for word in found]
    return " ".join(word for word in kept if word not in _EMPTY) or name


def to_json(feature: Feature) -> list[Any]:
    """What a record keeps of it."""
    return [feature.section, feature.row, [list(pair) for pair in feature.columns]]


def from_json(value: Sequence[Any]) -> Feature:
    """The reverse of ``to_json``."""
    section, row, columns = value
    return Feature(str(section), str(row), tuple((str(name), str(of)) for name, of in columns))
