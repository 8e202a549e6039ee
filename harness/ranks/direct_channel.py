"""``DirectChannel``: stores a rank's result where the rank runs in the process that judges it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from harness.outcomes import SubtestOutcome
from harness.ranks.result import RankResult


@dataclass(slots=True)
class DirectChannel:
    """What ``_run`` gets as its pipe in a rank that is a thread or that an external launcher started.

    It stores the rank's result for the parent to read. ``subtest_failed`` is called with each sub-test that
    fails, ``on_ready`` when the rank has set up everything that does not belong to the test. ``goes_on`` says
    that the process goes on after the test, and that what the test leaves in it matters.
    """

    goes_on: ClassVar[bool] = True
    result: RankResult | None = None
    texts: list[str] = field(default_factory=list)
    kept: dict[str, object] = field(default_factory=dict)
    subtest_failed: Callable[[SubtestOutcome], object] = lambda subtest: None
    on_ready: Callable[[], object] = lambda: None

    def record(self, result: RankResult) -> None:
        """Stores the test's result; a later call replaces an earlier one."""
        self.result = result

    def send(self, value: object) -> None:
        """Stores what upstream's ranks send through their pipe, which is a traceback."""
        self.texts.append(str(value))

    def close(self) -> None:
        """Does nothing: upstream's pipe has this method, and there is nothing to close here."""

    def ready(self) -> None:
        """Marks the point after which everything left behind in the process counts as the test's leak."""
        self.on_ready()
