"""``RecordingChannel``: stands for a rank's channel to its parent and keeps what the rank tells it."""

from __future__ import annotations

from harness.outcomes import SubtestOutcome
from harness.ranks.result import RankResult


class RecordingChannel:
    """A rank's channel, as far as a case uses it, without a parent on the other side."""

    goes_on = True

    def __init__(self) -> None:
        self.result: RankResult | None = None
        self.failed_subtests: list[SubtestOutcome] = []
        self.kept: dict[str, object] = {}

    def record(self, result: RankResult) -> None:
        """Keeps the rank's result."""
        self.result = result

    def subtest_failed(self, subtest: SubtestOutcome) -> None:
        """Keeps a sub-test that failed."""
        self.failed_subtests.append(subtest)

    def ready(self) -> None:
        """Does nothing, because nobody waits for the rank."""
