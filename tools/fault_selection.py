"""``FaultSelection``: whether the tests that a fault's files can affect are all that execute the fault.

The files are those that ``tools/patched_files.py`` finds, and the tests those that ``run_tests.py`` would run
with ``--affected-by`` these files, by a map of which files tests execute. A test that does not execute a
fault cannot fail by it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from harness.impact.changes import Change
from harness.impact.decision import decide
from harness.impact.impact_map import ImpactMap
from harness.impact.known_tests import KnownTests
from harness.report.text import count


@dataclass(frozen=True, slots=True)
class FaultSelection:
    """What is selected for one fault: ``tests``, or all of them where that is None.

    ``files`` are those of the fault, none where it is no Python's; ``missed`` are the tests that execute it
    and are not selected.
    """

    name: str
    files: tuple[str, ...]
    tests: frozenset[str] | None
    executing: int
    missed: tuple[str, ...]

    @property
    def text(self) -> str:
        """The selection in a line, and a line for each test that it misses."""
        where = ", ".join(self.files) or "no file of Python"
        what = "all tests" if self.tests is None else count(len(self.tests), "test")
        found = f"{self.executing - len(self.missed)} of {self.executing} that execute it"
        lines = [f"{self.name} ({where}): {what} selected, among them {found}"]
        return "\n".join([*lines, *(f"    missed: {test}" for test in self.missed)])


def fault_selection(
    name: str, files: Collection[str], impact: ImpactMap, tests: Collection[str], executing: Collection[str]
) -> FaultSelection:
    """What of ``tests`` is selected for a fault in ``files`` that ``executing`` of them execute."""
    changes = [Change(file, inside=True) for file in sorted(files)]
    known = KnownTests(impact.torch, impact.tests)
    selected = decide(changes, known, impact.torch, tests, lambda file: ()).tests if changes else None
    executing = set(executing).intersection(tests)
    missed = sorted(executing - selected) if selected is not None else []
    return FaultSelection(name, tuple(sorted(files)), selected, len(executing), tuple(missed))
