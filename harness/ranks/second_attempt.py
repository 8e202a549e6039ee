"""Runs a test again on new ranks after it failed on used ones, within the deadline of the first attempt.

The second result tells whether state from an earlier test is to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.errors import HarnessError
from harness.outcomes import RankOutcome, Status, TestOutcome
from harness.rank_merging import MergeRules, merge
from harness.ranks.job import JobResult, RunningRanks


@dataclass(frozen=True, slots=True)
class SecondAttempt:
    """The result and merged outcome of the second attempt, or in ``why_not`` the reason why there is none.

    ``outcome`` is None where Ctrl-C ended the attempt.
    """

    result: JobResult | None = None
    outcome: TestOutcome | None = None
    why_not: str = ""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the attempt."""
        return self.result is not None and self.result.interrupted


def second_attempt(
    start: Callable[[float], RunningRanks],
    rules: MergeRules,
    *,
    where: str,
    timeout_s: float,
    elapsed_s: float,
    merged: Callable[[Sequence[RankOutcome]], TestOutcome] | None = None,
) -> SecondAttempt:
    """Runs a test again if its deadline of ``timeout_s`` leaves at least as long as the first attempt took.

    ``start`` starts new ranks and gets the seconds until their deadline; ``where`` names the ranks in
    messages ("on fresh ranks"). ``merged`` makes the test's outcome of its ranks' where that takes more than
    the ``rules``.
    """
    no_time = SecondAttempt(
        why_not=f"its deadline leaves no time to try it {where}, so earlier tests cannot be ruled out"
    )
    left_s = time_for_another(timeout_s, elapsed_s)
    if left_s is None:
        return no_time
    could_not = f"it could not be tried {where}"
    try:
        result = start(left_s).join(rules)
    except HarnessError as error:
        return SecondAttempt(why_not=f"{could_not}: {error}")
    if result.interrupted:
        return SecondAttempt(result)
    if result.server_lost:
        return SecondAttempt(why_not=f"{could_not}: the server that starts ranks died")
    outcome = merged(result.outcomes) if merged is not None else merge(result.outcomes, rules)
    return no_time if outcome.status is Status.TIMED_OUT else SecondAttempt(result, outcome)


def time_for_another(timeout_s: float, elapsed_s: float) -> float | None:
    """Seconds left for a second attempt before the deadline; None where the first took longer than that."""
    left_s = timeout_s - elapsed_s
    return left_s if left_s >= elapsed_s else None
