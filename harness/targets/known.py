"""``Known``: a failure of a target that is known, as its author writes it beside the target, in ``KNOWN``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import ModuleType
from typing import Any

from harness.errors import UsageError


@dataclass(frozen=True, slots=True)
class Known:
    """Tests that are known to fail on a target.

    ``tests`` is a shell pattern of ids, with or without the leading ``suites.``; ``why`` is told with each of
    them. ``since`` and ``before`` are the first release of torch ("2.12") in which they fail, and the first
    in which they do not any more. A test that fails lets the run pass; one that passes fails it.
    """

    tests: str
    why: str
    since: str | None = None
    before: str | None = None

    def concerns(self, test_id: str) -> bool:
        """Whether it is about this test."""
        return fnmatchcase(test_id, self.tests) or fnmatchcase(test_id.removeprefix("suites."), self.tests)

    def is_here(self) -> bool:
        """Whether it is about the release of torch that runs. Imports torch if there are limits."""
        if self.since is None and self.before is None:
            return True
        from harness.releases import torch_between

        return torch_between(self.since, self.before)


def known_of(module: ModuleType | None) -> tuple[Known, ...]:
    """What ``KNOWN`` of a plugin has for the release of torch that runs.

    UsageError where it has anything but ``Known``.
    """
    table = getattr(module, "KNOWN", ())
    if not isinstance(table, Sequence):
        raise UsageError(f"KNOWN of the plugin {getattr(module, '__name__', '')} is no tuple of Known(...)")
    for each in table:
        if not isinstance(each, Known):
            raise UsageError(
                f"the plugin {getattr(module, '__name__', '')} has {each!r} in KNOWN: write Known(...)"
            )
    return tuple(each for each in table if each.is_here())


def to_json(table: Iterable[Known]) -> list[dict[str, str]]:
    """What another process needs of those that are about the release of torch that runs."""
    return [{"tests": each.tests, "why": each.why} for each in table]


def from_json(values: Iterable[Mapping[str, Any]]) -> tuple[Known, ...]:
    """The reverse of ``to_json``."""
    return tuple(Known(str(value["tests"]), str(value["why"])) for value in values)
