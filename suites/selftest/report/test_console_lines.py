"""Self-tests of harness.report.console_lines: the lines about a failure and the lines at the end of a run."""

from __future__ import annotations

import unittest
from dataclasses import replace

from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.base import RunInfo
from harness.report.console_lines import (
    MAX_OUTPUT_LINES,
    MAX_WARNINGS,
    closing_lines,
    failure_lines,
    finished_line,
    opening_line,
)
from harness.report.summary import summarise
from suites.selftest.report import runs


def said(record: TestRecord) -> list[str]:
    return [line.text for line in failure_lines(record, RunInfo())]


def by_name(name: str) -> TestRecord:
    return next(r for r in runs.records() if r.id.endswith(name))


class FailureLinesTest(unittest.TestCase):
    """``failure_lines``: everything about one attempt that did not pass."""

    def test_multi_rank_failure_is_its_text_below_a_rule(self) -> None:
        record = by_name(".test_sum")
        lines = said(record)
        self.assertTrue(lines[0].startswith(f"FAIL {record.id} (4 ranks) ---"))
        self.assertEqual(lines[1], "failed (world size 4) after 0.40 s")
        self.assertEqual(lines[2:], record.details.splitlines()[1:])

    def test_single_process_failure_gets_its_command(self) -> None:
        lines = said(TestRecord("m.T.t[a b]", Status.ERROR, details="Traceback\nKeyError: 1\n", seed=3))
        self.assertEqual(lines[1:], ["Traceback", "KeyError: 1",
                                     "reproduce: python run_tests.py --seed 3 'm.T.t[a b]'"])  # fmt: skip

    def test_output_is_cut(self) -> None:
        lines = said(TestRecord("t", Status.FAILED, details="x", output="\n".join(map(str, range(100)))))
        start = lines.index(f"output, last {MAX_OUTPUT_LINES} of 100 lines:")
        self.assertEqual(lines[start + 1 : start + 3], ["  60", "  61"])

    def test_output_that_the_details_hold_is_not_repeated(self) -> None:
        record = TestRecord("t", Status.FAILED, details="was: hello", output="hello\n")
        self.assertNotIn("output:", said(record))

    def test_subtests(self) -> None:
        lines = said(by_name("test_dtypes"))
        start = lines.index("sub-test (dtype='f32'): failed on ranks 0, 1")
        self.assertEqual(lines[start + 2], "  AssertionError: 1 != 2")
        self.assertFalse(any("f64" in line for line in lines), "a skipped one is no failure")

    def test_foreign_text_cannot_steer_the_terminal(self) -> None:
        self.assertNotRegex("".join(said(by_name("\x00>]"))), r"[\x00-\x08\x0b-\x1f]")


class FinishedLineTest(unittest.TestCase):
    """``finished_line``: one line about an attempt."""

    def test_table(self) -> None:
        """Status, repeat, attempt and reason of an attempt are in its line."""
        table = {
            "[ 3/12] ok       0.250 s  t (2 ranks)": TestRecord(
                "t", Status.PASSED, duration_s=0.25, world_size=2
            ),
            "[ 3/12] skip     0.000 s  t: no GPU": TestRecord("t", Status.SKIPPED, reason="no GPU"),
            "[ 3/12] ok        2.00 s  t attempt 2, flaky": TestRecord(
                "t", Status.PASSED, duration_s=2, attempt=2, flaky=True
            ),
        }
        for text, record in table.items():
            with self.subTest(text):
                self.assertEqual(finished_line(record, 3, 12).text, text)


class ClosingLinesTest(unittest.TestCase):
    """``closing_lines`` and ``opening_line``: the end and the start of a run."""

    def lines(self, verbosity: int = 0, durations: int = 2) -> list[str]:
        info = runs.info(directory="/runs/1")
        closing = closing_lines(runs.summary(), info, durations=durations, verbosity=verbosity)
        return [line.text for line in closing]

    def test_last_line_is_for_machines(self) -> None:
        """The last line is exactly the summary line."""
        for verbosity in (-1, 0, 1):
            self.assertRegex(self.lines(verbosity)[-1], r"^\d+ passed, \d+ failed, \d+ skipped$")

    def test_order_of_sections(self) -> None:
        heads = [line.strip("- ") for line in self.lines() if line.startswith("-- ")]
        more = ["slowest 2", "warnings (1)", "notices (1)", "not run (1)"]
        self.assertEqual(heads, ["failed (6)", "flaky (1)", "skipped (1)", *more])

    def test_warnings_are_cut(self) -> None:
        """The most frequent come first, and all of them only with ``-v``."""
        many = tuple(f"t.py:{n}: UserWarning: {n}" for n in range(MAX_WARNINGS + 2))
        given = (("a", many), ("b", many[-1:]))
        summary = summarise([TestRecord(test, Status.PASSED, warnings=lines) for test, lines in given])
        for verbosity, number in ((0, MAX_WARNINGS + 1), (1, MAX_WARNINGS + 2)):
            lines = closing_lines(summary, RunInfo(), durations=0, verbosity=verbosity)
            texts = [line.text for line in lines]
            at = next(n for n, text in enumerate(texts) if text.startswith("-- warnings (12) "))
            self.assertEqual(texts[at + 1], f"      2  {many[-1]}")
            self.assertEqual(sum("UserWarning" in text or " more, in" in text for text in texts), number)

    def test_quiet_leaves_out_what_is_not_wrong(self) -> None:
        """With ``-q`` there are no sections about flaky, skipped or slow tests."""
        heads = [line.strip("- ") for line in self.lines(-1) if line.startswith("-- ")]
        self.assertEqual(heads, ["failed (6)", "not run (1)"])

    def test_no_durations(self) -> None:
        self.assertFalse(any("slowest" in line for line in self.lines(durations=0)))

    def test_rerun_command_and_directory(self) -> None:
        lines = self.lines()
        rerun = next(line for line in lines if line.startswith("rerun what failed: "))
        self.assertIn("python run_tests.py --seed 7 suites.c10d.test_sum.SumTest.test_sum ", rerun)
        self.assertNotIn("test_wait", rerun, "a flaky test has passed")
        self.assertIn("reports and logs: /runs/1", lines)

    def test_a_random_order_can_be_had_again(self) -> None:
        failed, passed = runs.summary(), summarise([TestRecord("t", Status.PASSED)])
        info = runs.info(argv=("c10d", "--shuffle"), shuffle=5)
        again = "all of it in the same order: python run_tests.py c10d --shuffle --shuffle=5"
        for summary, told in (
            (failed, info),
            (passed, info),
            (failed, replace(info, shuffle=None)),
            (failed, replace(info, resumed=1)),
        ):
            lines = [x.text for x in closing_lines(summary, told, durations=0, verbosity=-1)]
            self.assertEqual(again in lines, summary is failed and told is info)

    def test_interrupted_run_says_how_to_go_on(self) -> None:
        summary = replace(runs.summary(), interrupted=True)
        lines = [x.text for x in closing_lines(summary, runs.info(), durations=0, verbosity=0)]
        self.assertIn("interrupted; go on with: python run_tests.py --resume", lines)

    def test_good_run_is_short(self) -> None:
        summary = summarise([TestRecord("t", Status.PASSED)], duration_s=61)
        closing = closing_lines(summary, RunInfo(), durations=0, verbosity=0)
        self.assertEqual([x.text for x in closing], ["1 test in 1:01", "1 passed, 0 failed, 0 skipped"])
        self.assertEqual(closing[-1].style, "good")

    def test_opening(self) -> None:
        text = opening_line(runs.info(shard=(1, 2), resumed=1, shuffle=0)).text
        self.assertEqual(
            text,
            "12 tests, 2 jobs, shard 1/2, seed 7, shuffle seed 0, torch 2.13.0, Python 3.11.7, "
            "1 result taken over",
        )


if __name__ == "__main__":
    unittest.main()
