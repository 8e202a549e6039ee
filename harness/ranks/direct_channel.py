"""``DirectChannel``: the pipe of a rank in the process that judges it; nothing has to be sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.outcomes import SubtestOutcome
from harness.ranks.result import RankResult


@dataclass(slots=True)
class DirectChannel:
    """What ``_run`` gets as its pipe in a rank that is a thread, or that somebody else started.

    It keeps the rank's result where the parent can take it. ``subtest_failed`` is called with each sub-test
    that goes wrong, ``on_ready`` when the rank has made what is not the test's.
    """

    result: RankResult | None = None
    texts: list[str] = field(default_factory=list)
    kept: dict[str, object] = field(default_factory=dict)
    subtest_failed: Callable[[SubtestOutcome], object] = lambda subtest: None
    on_ready: Callable[[], object] = lambda: None

    def record(self, result: RankResult) -> None:
        """Notes how the test went; the last call counts."""
        self.result = result

    def send(self, value: object) -> None:
        """Takes what upstream's ranks send through their pipe: a traceback."""
        self.texts.append(str(value))

    def close(self) -> None:
        """Does nothing: upstream's pipe has this method, and there is nothing to close here."""

    def ready(self) -> None:
        """Says that what is left behind from here on is the test's."""
        self.on_ready()
