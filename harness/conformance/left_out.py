"""``LeftOut``: tests that are there and that a run did not run, so that one that is gone is told from them.

Pure. A run knows the tests of the modules that it has imported, and the modules of the suites beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# The package of the modules of which a run knows whether they are there, also where it imports others only.
SUITES = "suites"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a run was not about.

    ``imported`` are the modules that it has imported, ``others`` those that it knows and has not, and
    ``tests`` the ids of the tests in the first that it has not run.
    """

    imported: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    tests: frozenset[str] = frozenset()

    def has(self, test_id: str) -> bool:
        """Whether a test that the run has no result of may still be there, as far as the run knows."""
        if test_id in self.tests:
            return True
        around = frozenset(_around(test_id))
        if around & self.imported:
            return False
        return bool(around & self.others) or not test_id.startswith(f"{SUITES}.")

    def without(self, ids: Iterable[str]) -> LeftOut:
        """The same of a run that has results of these tests."""
        return LeftOut(self.imported, self.others, self.tests.difference(ids))


def before_all(imported: Iterable[str], others: Iterable[str], there: Iterable[Iterable[str]]) -> LeftOut:
    """What a run has left out before its first test; ``there`` are the tests of each imported module."""
    return LeftOut(
        frozenset(imported), frozenset(others), frozenset(test for found in there for test in found)
    )


def together(parts: Sequence[LeftOut]) -> LeftOut:
    """What several parts of a run have left out, before it is known which tests any of them has run."""
    imported = frozenset[str]().union(*(part.imported for part in parts))
    others = frozenset[str]().union(*(part.others for part in parts))
    tests = frozenset[str]().union(*(part.tests for part in parts))
    return LeftOut(imported, others - imported, tests)


def to_json(found: LeftOut) -> dict[str, Any]:
    """The value as JSON-able values; lossless with ``from_json``."""
    return {name: sorted(getattr(found, name)) for name in ("imported", "others", "tests")}


def from_json(value: Mapping[str, Sequence[str]]) -> LeftOut:
    """The value of JSON values; KeyError or TypeError where they are none."""
    return LeftOut(*(frozenset(map(str, value[name])) for name in ("imported", "others", "tests")))


def _around(test_id: str) -> Iterator[str]:
    parts = test_id.split(".")
    for end in range(1, len(parts)):
        yield ".".join(parts[:end])
