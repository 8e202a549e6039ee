"""Decides what ``sys.exit`` in a rank of an upstream test means: a skip, a pass, or neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.outcomes import RankOutcome, Status
from harness.ranks.result import RankResult


def table() -> Mapping[int, str]:
    """This torch's exit codes of skips and their reasons (``common_distributed.TEST_SKIPS``)."""
    from torch.testing._internal import common_distributed

    return {skip.exit_code: skip.message for skip in common_distributed.TEST_SKIPS.values()}


def reason(ending: SystemExit | None, reasons: Mapping[int, str]) -> str | None:
    """The reason of the skip that the exit code stands for; None where it is no skip."""
    code = ending.code if ending is not None else None
    return reasons.get(code) if isinstance(code, int) else None


def read_result(result: RankResult, reasons: Mapping[int, str]) -> RankResult:
    """Turns the rank's own result into a skip, where its test called ``sys.exit`` with a skip's code."""
    why = reason(result.ending, reasons)
    if why is None or result.error is None or result.error.type_name != "SystemExit":
        return result  # another error came before the exit
    return RankResult(Status.SKIPPED, skip_reason=why, subtests=result.subtests)


def exited_with_zero(result: RankResult) -> bool:
    """Whether the test ended by ``sys.exit(0)``, which counts as a pass as it does upstream.

    Tests of the wheel do that to leave out the code after it.
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
    """Turns the crash of a rank that exited with a skip's code before its test into a skip (parent)."""
    return tuple(_read(outcome, reasons) for outcome in outcomes)


def _read(outcome: RankOutcome, reasons: Mapping[int, str]) -> RankOutcome:
    why = reasons.get(outcome.exit_code) if outcome.exit_code is not None else None
    worse = outcome.error is not None and outcome.error.type_name != "SystemExit"
    if outcome.status is not Status.CRASHED or why is None or worse:
        return outcome
    return replace(outcome, status=Status.SKIPPED, skip_reason=why, error=None)
