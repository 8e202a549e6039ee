"""Tests that exit codes become skips, by tables of rank results and outcomes."""

from __future__ import annotations

import unittest
from dataclasses import replace

from harness.dropin import skips
from harness.outcomes import ErrorInfo, RankOutcome, Status, SubtestOutcome
from harness.ranks.result import RankResult

REASONS = {86: "generic", 74: "no CUDA"}


def _exit(code: object) -> RankResult:
    ending = SystemExit(code)
    return RankResult(Status.ERROR, ErrorInfo("SystemExit", str(code), "..."), ending=ending)


class Accounts(unittest.TestCase):
    """Skips in a rank's result of its own test."""

    def test_code_of_a_skip(self) -> None:
        account = skips.read_result(_exit(86), REASONS)
        self.assertEqual((account.status, account.skip_reason), (Status.SKIPPED, "generic"))
        self.assertIsNone(account.ending)

    def test_other_endings_stay(self) -> None:
        for code in (0, 10, None, "86"):
            with self.subTest(code=code):
                account = _exit(code)
                self.assertIs(skips.read_result(account, REASONS), account)

    def test_an_earlier_problem_stays(self) -> None:
        account = RankResult(Status.FAILED, ErrorInfo("AssertionError", "", "..."), ending=SystemExit(86))
        self.assertIs(skips.read_result(account, REASONS), account)

    def test_content_only_by_exit_0_and_nothing_before(self) -> None:
        bad = SubtestOutcome(None, (), Status.FAILED)
        for account, expected in (
            (_exit(0), True),
            (_exit(None), True),
            (_exit(1), False),
            (_exit("0"), False),
            (replace(_exit(0), subtests=(bad,)), False),
            (replace(_exit(0), error=ErrorInfo("AssertionError", "", "...")), False),
            (RankResult(Status.PASSED), False),
        ):
            with self.subTest(account=account):
                self.assertIs(skips.exited_with_zero(account), expected)

    def test_no_ending(self) -> None:
        account = RankResult(Status.PASSED)
        self.assertIs(skips.read_result(account, REASONS), account)


class Outcomes(unittest.TestCase):
    """Skips in the outcomes that the parent sees."""

    def test_only_crashes_with_the_code_of_a_skip_change(self) -> None:
        for status, code, expected in (
            (Status.CRASHED, 74, Status.SKIPPED),
            (Status.CRASHED, 3, Status.CRASHED),
            (Status.CRASHED, None, Status.CRASHED),
            (Status.CRASHED, -11, Status.CRASHED),
            (Status.FAILED, 74, Status.FAILED),
            (Status.PASSED, 0, Status.PASSED),
        ):
            with self.subTest(status=status, code=code):
                [outcome] = skips.read_outcomes([RankOutcome(0, status, exit_code=code)], REASONS)
                self.assertIs(outcome.status, expected)

    def test_a_problem_beside_the_exit_stays(self) -> None:
        error = ErrorInfo("AssertionError", "", "...")
        [outcome] = skips.read_outcomes([RankOutcome(0, Status.CRASHED, exit_code=74, error=error)], REASONS)
        self.assertIs(outcome.status, Status.CRASHED)

    def test_the_reason_is_upstreams(self) -> None:
        [outcome] = skips.read_outcomes([RankOutcome(0, Status.CRASHED, exit_code=74)], REASONS)
        self.assertEqual(outcome.skip_reason, "no CUDA")


class Table(unittest.TestCase):
    """The table of skip codes of the installed torch."""

    def test_has_the_codes_that_decorators_use(self) -> None:
        from torch.testing._internal.common_distributed import TEST_SKIPS

        table = skips.table()
        self.assertEqual(table[TEST_SKIPS["generic"].exit_code], TEST_SKIPS["generic"].message)
        self.assertEqual(len(table), len({s.exit_code for s in TEST_SKIPS.values()}))


if __name__ == "__main__":
    unittest.main()
