"""Self-tests of harness.report.summary: how attempts are counted and listed."""

from __future__ import annotations

import shlex
import unittest

from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.summary import MAX_RERUN_IDS, Summary, rerun_command, summarise

P, F, S = Status.PASSED, Status.FAILED, Status.SKIPPED


def record(name: str, status: Status = P, **fields: object) -> TestRecord:
    return TestRecord(name, status, **fields)  # type: ignore[arg-type]  # a table's values are of any kind


class CountsTest(unittest.TestCase):
    """The counts of a run."""

    def test_each_status_counts_once_and_all_add_up(self) -> None:
        summary = Summary(tuple(record(f"t.{s.name}", s) for s in Status))
        self.assertEqual((summary.passed, summary.failed, summary.skipped), (2, 7, 1))
        self.assertEqual(summary.line, "2 passed, 7 failed, 1 skipped")
        self.assertEqual(
            summary.asides,
            "1 crashed, 1 deadlocked, 1 timed out, 1 failed as expected, 1 passed unexpectedly, "
            "1 ended before their verdict",
        )

    def test_empty_run(self) -> None:
        self.assertEqual(summarise([]).line, "0 passed, 0 failed, 0 skipped")
        self.assertEqual(summarise([]).asides, "")

    def test_not_run(self) -> None:
        """Selected tests without a record are listed as not run."""
        summary = summarise([record("a")], selected=["a", "b", "c"], interrupted=True, exit_code=130)
        self.assertEqual(summary.not_run, ("b", "c"))
        self.assertEqual(summary.line, "1 passed, 0 failed, 0 skipped")
        self.assertEqual(summary.asides, "2 not run")


class AttemptsTest(unittest.TestCase):
    """Several attempts at one test."""

    def test_rerun_that_passes_is_flaky(self) -> None:
        summary = summarise([record("a", F), record("b"), record("a", P, attempt=2, flaky=True)])
        self.assertEqual(summary.line, "2 passed, 0 failed, 0 skipped")
        self.assertEqual(summary.asides, "1 flaky")
        self.assertEqual([t.id for t in summary.flaky], ["a"])
        self.assertEqual(len(summary.flaky[0].failed), 1)
        self.assertIsNone(summary.rerun_command)

    def test_rerun_that_fails_again_is_one_failure(self) -> None:
        summary = summarise([record("a", F), record("a", Status.CRASHED, attempt=2)])
        self.assertEqual(summary.line, "0 passed, 1 failed, 0 skipped")
        self.assertIs(summary.failures[0].last.status, Status.CRASHED)

    def test_attempts_are_put_in_order(self) -> None:
        summary = Summary((record("a", P, attempt=2), record("a", F, attempt=1)))
        self.assertTrue(summary.tests[0].flaky)

    def test_repeats_are_tests_of_their_own(self) -> None:
        summary = summarise([record("a", P), record("a", F, repeat=2), record("a", F, repeat=3)])
        self.assertEqual(summary.line, "1 passed, 2 failed, 0 skipped")
        self.assertEqual(summary.failed_ids, ("a",))


class ListsTest(unittest.TestCase):
    """The lists ``slowest`` and ``skips``."""

    def test_slowest(self) -> None:
        records = [record("a", duration_s=1), record("b", duration_s=3), record("s", S, duration_s=9)]
        again = record("a", P, duration_s=5, attempt=2)
        self.assertEqual([t.id for t in summarise([*records, again]).slowest(2)], ["a", "b"])

    def test_skips_by_reason_most_frequent_first(self) -> None:
        records = [
            record("a", S, reason="no GPU"),
            record("b", S, reason="slow"),
            record("c", S, reason="slow"),
        ]
        self.assertEqual(summarise(records).skips, (("slow", ("b", "c")), ("no GPU", ("a",))))

    def test_skip_without_reason(self) -> None:
        self.assertEqual(summarise([record("a", S)]).skips, (("no reason given", ("a",)),))


class RerunTest(unittest.TestCase):
    """The command that runs the failed tests again."""

    def test_names_exactly_the_failed_tests(self) -> None:
        records = [record("m.T.test_a", F), record("m.T.test_b"), record("m.T.test_c[x y]", Status.TIMED_OUT)]
        command = summarise(records, command="python run_tests.py --seed 7").rerun_command
        assert command is not None
        self.assertEqual(
            shlex.split(command), ["python", "run_tests.py", "--seed", "7", "m.T.test_a", "m.T.test_c[x y]"]
        )

    def test_tests_that_an_interrupt_ended_have_not_failed(self) -> None:
        self.assertIsNone(summarise([record("a", Status.ENDED)]).rerun_command)

    def test_many_are_read_from_the_last_run(self) -> None:
        """Beyond the limit of ids the command uses ``--last-failed``."""
        ids = [f"t{n}" for n in range(MAX_RERUN_IDS + 1)]
        self.assertEqual(rerun_command("run", ids), "run --last-failed")
        self.assertIn(ids[-2], str(rerun_command("run", ids[:-1])))

    def test_by_bazel(self) -> None:
        """Bazel takes one filter: where several tests failed, all run again."""
        command, names = "bazel test //a", ["--test_filter=T.a", "--test_filter=T.b"]
        self.assertEqual(rerun_command(command, names[:1]), f"{command} {names[0]}")
        self.assertEqual(rerun_command(command, names), command)


if __name__ == "__main__":
    unittest.main()
