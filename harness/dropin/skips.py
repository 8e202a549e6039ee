"""What it means when a rank of an upstream test ends by ``sys.exit``: a skip, or that it is content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.outcomes import RankOutcome, Status
from harness.ranks.result import RankResult


def table() -> Mapping[int, str]:
    """Exit code -> reason, as this torch has them (``common_distributed.TEST_SKIPS``)."""
    from torch.testing._internal import common_distributed

    return {skip.exit_code: skip.message for skip in common_distributed.TEST_SKIPS.values()}


def reason(ending: SystemExit | None, reasons: Mapping[int, str]) -> str | None:
    """Why a rank that ends so skips its test; None where that is no skip."""
    code = ending.code if ending is not None else None
    return reasons.get(code) if isinstance(code, int) else None


def read_result(result: RankResult, reasons: Mapping[int, str]) -> RankResult:
    """The rank's own result, where its test ended by ``sys.exit`` with the code of a skip."""
    why = reason(result.ending, reasons)
    if why is None or result.error is None or result.error.type_name != "SystemExit":
        return result  # it did something worse before
    return RankResult(Status.SKIPPED, skip_reason=why, subtests=result.subtests)


def content(result: RankResult) -> bool:
    """Whether the test ended by ``sys.exit(0)``, which upstream takes for a pass.

    Tests of the wheel do that to leave without what would follow.
    """
    ending, error = result.ending, result.error
    return (
        ending is not None
        and ending.code in (None, 0)
        and error is not None
        and error.type_name == "SystemExit"
        and not any(subtest.status.bad for subtest in result.subtests)
    )


def read_outcomes(outcomes: Sequence[RankOutcome], reasons: Mapping[int, str]) -> tuple[RankOutcome, ...]:
    """The parent's view: a rank that never came to its test and left with the code of a skip has skipped."""
    return tuple(_read(outcome, reasons) for outcome in outcomes)


def _read(outcome: RankOutcome, reasons: Mapping[int, str]) -> RankOutcome:
    why = reasons.get(outcome.exit_code) if outcome.exit_code is not None else None
    worse = outcome.error is not None and outcome.error.type_name != "SystemExit"
    if outcome.status is not Status.CRASHED or why is None or worse:
        return outcome
    return replace(outcome, status=Status.SKIPPED, skip_reason=why, error=None)
