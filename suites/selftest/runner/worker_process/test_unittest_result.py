"""Tests that all reports of unittest about a test give one verdict and one text."""

from __future__ import annotations

import unittest
import warnings
from collections.abc import Callable
from dataclasses import replace
from unittest import mock

from harness import watched_method
from harness.communication_call import Call, Signature
from harness.errors import RankFailure, UsageError
from harness.outcomes import MergedSubtest, RankOutcome, Status, SubtestOutcome, TestOutcome
from harness.record import SubtestRecord, TestRecord
from harness.runner.worker_process.unittest_result import RecordingResult, RunningTest

FAILED = TestOutcome(Status.FAILED, (RankOutcome(0, Status.FAILED),), 0, "rank 0 failed")


def run(
    body: Callable[[unittest.TestCase], object],
    outcome: TestOutcome | None = None,
    *,
    keeps_calls: bool = False,
) -> TestRecord:
    """Returns the record of a test that runs ``body`` and whose ranks had ``outcome``."""
    test = unittest.FunctionTestCase(lambda: body(test))
    test._harness_outcome = outcome  # type: ignore[attr-defined]  # where multi-rank tests leave it
    collector = RecordingResult()
    collector.open(RunningTest("m.T.test"))
    test(collector)
    return collector.running.record(keeps_calls=keeps_calls)


def fail(test: unittest.TestCase) -> None:
    """Fails as a multi-rank test does."""
    raise RankFailure("m.T.test: failed on 1 rank", FAILED)


class WarningTest(unittest.TestCase):
    """What a record says of a pass."""

    def test_body_that_did_not_run(self) -> None:
        """A coroutine of an ordinary class passes, as by unittest alone, with a warning."""

        class T(unittest.TestCase):
            async def test_coroutine(self) -> None:
                self.fail("never")

        collector = RecordingResult()
        collector.open(RunningTest("m.T.test"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's and unittest's own
            T("test_coroutine")(collector)
        record = collector.running.record()
        self.assertEqual((record.status, len(record.warnings)), (Status.PASSED, 1))
        self.assertEqual(run(lambda test: None).warnings, ())


class PatchedUnittestTest(unittest.TestCase):
    """What a record says of a pass after a test has patched unittest."""

    def test_method_that_nobody_saw(self) -> None:
        """It is an error, because the method may not have been called; a failure stays what it is."""

        class T(unittest.TestCase):
            def test_fails(self) -> None:
                self.fail("nobody sees this")

        for call, status in ((lambda *_: None, Status.ERROR), (lambda _, method: method(), Status.FAILED)):
            collector = RecordingResult()
            collector.open(RunningTest("m.T.test"))
            with self.subTest(status), mock.patch.object(unittest.TestCase, "_callTestMethod", call):
                T("test_fails")(collector)
            self.assertEqual(collector.running.record().status, status)


class VerdictTest(unittest.TestCase):
    """The verdict of a test whose ranks have an outcome."""

    def test_the_outcome_names_the_trouble(self) -> None:
        """A rank that crashed makes the test crashed, whatever exception is raised."""
        crashed = replace(FAILED, status=Status.CRASHED, reason="rank 0 crashed")

        def crash(test: unittest.TestCase) -> None:
            raise RankFailure("text", crashed)

        self.assertEqual(run(crash, crashed).status, Status.CRASHED)
        self.assertEqual(run(fail, FAILED).reason, "rank 0 failed")

    def test_calls_of_ranks(self) -> None:
        """They are in the record of a test that failed, and of any where that was asked for."""
        made = (Call(Signature("barrier", "0"), 1, 1, 1.0),)
        for body, status, keeps, expected in (
            (fail, Status.FAILED, False, made),
            (lambda test: None, Status.PASSED, False, ()),
            (lambda test: None, Status.PASSED, True, made),
        ):
            with self.subTest(status=status, keeps=keeps):
                outcome = TestOutcome(status, (RankOutcome(0, status, calls=made),))
                (rank,) = run(body, outcome, keeps_calls=keeps).ranks
                self.assertEqual((rank.calls, rank.calls_made), (expected, 1))

    def test_a_failure_that_unittest_was_told_to_expect(self) -> None:
        """An expected failure is judged as unittest does, and not by the ranks' sub-tests."""
        sub = SubtestOutcome("a", (), Status.FAILED)
        outcome = replace(FAILED, subtests=(MergedSubtest(sub, (0,)),))

        class T(unittest.TestCase):
            _harness_outcome = outcome

            @unittest.expectedFailure
            def test_expected(self) -> None:
                fail(self)

        collector = RecordingResult()
        collector.open(RunningTest("m.T.test"))
        T("test_expected")(collector)
        record = collector.running.record()
        self.assertEqual((record.status, record.subtests), (Status.XFAILED, ()))

    def test_a_failure_that_the_test_itself_took_care_of(self) -> None:
        """A case that accepts its ranks' failure passes, because it may override how ranks are judged."""
        self.assertEqual(run(lambda test: None, FAILED).status, Status.PASSED)


class TextTest(unittest.TestCase):
    """Texts that a test's own code makes, and that may raise."""

    def test_an_exception_that_cannot_say_what_it_is(self) -> None:
        """An exception whose str() raises is an error in the traceback module's words."""

        class Unspeakable(Exception):
            def __str__(self) -> str:
                raise ValueError("no words")

        def body(test: unittest.TestCase) -> None:
            raise Unspeakable

        record = run(body)
        self.assertEqual(record.status, Status.ERROR)
        self.assertRegex(record.reason, r"Unspeakable: <exception str\(\) failed>$")
        self.assertIn("in body", record.details)

    def test_a_mistake_that_is_in_no_line_of_the_user(self) -> None:
        """Its text alone is shown; one that a line of the test has caused comes with that line."""

        def body(test: unittest.TestCase) -> None:
            raise UsageError("wrong here")

        def alone(test: unittest.TestCase) -> None:
            watched_method.require_ordinary(of_tests)

        async def of_tests() -> None:
            """Is not awaited."""

        self.assertIn("in body", run(body).details)
        with mock.patch.dict(globals(), {"__unittest": True}):  # as harness's modules are
            self.assertRegex(run(alone).details, r"^harness\.errors\.UsageError: of_tests is [^\n]+$")

    def test_a_reason_that_is_no_text(self) -> None:
        """unittest passes on what ``skip`` was given."""
        collector = RecordingResult()
        collector.open(RunningTest("m.T.test"))
        unittest.skip(404)(type("T", (unittest.TestCase,), {"runTest": print}))()(collector)  # type: ignore[arg-type]  # as users do
        self.assertEqual(collector.running.record().reason, "404")


class SubtestTest(unittest.TestCase):
    """Sub-tests of ranks, as they are reported to unittest."""

    def test_the_account_of_all_is_given_once(self) -> None:
        """The details begin with the verdict, and a further sub-test does not repeat them."""

        def body(test: unittest.TestCase) -> None:
            for text in ("m.T.test: failed on 1 rank", "on rank 0:"):
                with test.subTest(text):
                    raise RankFailure(text, FAILED)

        record = run(body, FAILED)
        self.assertEqual(record.details, "m.T.test: failed on 1 rank")
        self.assertEqual(len(record.subtests), 2)

    def test_the_account_of_all_comes_after_sub_tests(self) -> None:
        """Where more than sub-tests went wrong, the details are the text about the whole test."""

        def body(test: unittest.TestCase) -> None:
            with test.subTest(number=1):
                raise RankFailure("on rank 0:", FAILED)
            raise RankFailure("m.T.test: failed on 2 ranks", FAILED)

        self.assertEqual(run(body, FAILED).details, "m.T.test: failed on 2 ranks")

    def test_those_of_a_single_process_are_named(self) -> None:
        """Each failed sub-test of a single-process test is named with its own text."""

        def body(test: unittest.TestCase) -> None:
            for number in range(2):
                with test.subTest(number=number):
                    test.fail("no")

        details = run(body).details
        self.assertLess(details.index("sub-test (number=0)"), details.index("sub-test (number=1)"))

    def test_a_skipped_one_lets_the_test_pass(self) -> None:
        """A skipped sub-test is listed and lets the test pass, unless something else goes wrong or skips."""

        def fails(test: unittest.TestCase) -> None:
            test.fail("no")

        def skips(test: unittest.TestCase) -> None:
            test.skipTest("not here")

        def passes(test: unittest.TestCase) -> None:
            """Does nothing."""

        for after, status in ((passes, Status.PASSED), (fails, Status.FAILED), (skips, Status.SKIPPED)):

            def body(test: unittest.TestCase, after: Callable[[unittest.TestCase], object] = after) -> None:
                for number in range(3):
                    with test.subTest(number=number):
                        if number == 1:
                            test.skipTest("one")
                after(test)

            with self.subTest(after=after.__name__):
                record = run(body)
                self.assertEqual((record.status, record.subtests_run), (status, 3))
                self.assertEqual(record.subtests, (SubtestRecord("(number=1)", Status.SKIPPED, "one"),))


if __name__ == "__main__":
    unittest.main()
