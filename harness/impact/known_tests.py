"""``KnownTests``: what maps say of tests here and now, and of which of them that may be out of date."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from harness.impact.impact_map import ImpactMap, changed_since

HARNESS = "harness/"


@dataclass(frozen=True, slots=True)
class KnownTests:
    """By test, the files that it executed when it was recorded, on this release of ``torch``.

    ``changed`` has, by file that has changed since, the tests that executed it.
    """

    torch: str = ""
    tests: Mapping[str, frozenset[str]] = field(default_factory=dict)
    changed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def executing(self, file: str) -> set[str]:
        """The tests that executed functions of a file."""
        return {test for test, files in self.tests.items() if file in files}

    def changed_for(self, files: Collection[str]) -> dict[str, frozenset[str]]:
        """Of ``changed``, what counts where it is asked which tests execute ``files``.

        A file of the harness counts only where one is asked for: what else a test executes, its module and
        torch decide.
        """
        harness = any(file.startswith(HARNESS) for file in files)
        return {f: tests for f, tests in self.changed.items() if harness or not f.startswith(HARNESS)}


def known_tests(
    maps: Iterable[ImpactMap], asked: Collection[str], torch: str, digest: Callable[[str], str]
) -> KnownTests:
    """What maps say, of which an earlier one goes before the later ones, test by test.

    Maps of none of the tests ``asked`` for are left out. ``torch`` is the release here, and ``digest`` gives
    a file's digest now. Where all maps are of other releases, the ``torch`` of what is returned is one of
    these, and it says nothing of any test.
    """
    recorded = [each for each in maps if not each.tests.keys().isdisjoint(asked)]
    tests: dict[str, frozenset[str]] = {}
    changed: dict[str, set[str]] = {}
    for each in recorded:
        if each.torch != torch:
            continue
        new = {test: files for test, files in each.tests.items() if test not in tests}
        tests.update(new)
        for file in changed_since(each, digest):
            changed.setdefault(file, set()).update(test for test, files in new.items() if file in files)
    found = {file: frozenset(those) for file, those in changed.items() if those}
    return KnownTests(torch if tests or not recorded else recorded[0].torch, tests, found)
