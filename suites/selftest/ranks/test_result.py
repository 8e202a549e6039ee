"""Tests how a rank's unittest run becomes its result, and what else decides the rank's final status."""

from __future__ import annotations

import builtins
import contextlib
import json
import sys
import unittest
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from harness.outcomes import Status
from harness.ranks.result import RankResult, final_result, run_body
from harness.system import originals


class Body(unittest.TestCase):
    """A case that the loader does not find, because its method has another name; it runs ``body``."""

    body: Any = None

    def setUp(self) -> None:
        raise AssertionError("the parent's setUp must not run in a rank")

    def tearDown(self) -> None:
        raise AssertionError("the parent's tearDown must not run in a rank")

    def method(self) -> None:
        """Runs the body that the class was given."""
        type(self).body(self)


def result_of(body: Any, set_up: Any = lambda: None, tear_down: Any = lambda: None) -> RankResult:
    """The result of a test that does ``body(case)``."""
    case_type = type("Body", (Body,), {"body": staticmethod(body)})
    return run_body(case_type("method"), set_up, tear_down)


def fail(case: unittest.TestCase) -> None:
    """Fails by an assertion that is wrong."""
    case.fail("no")


def divide(case: unittest.TestCase) -> None:
    """Raises an error that is no assertion."""
    _ = 1 / 0


def raised_by(act: Any) -> BaseException:
    """The exception that a call raises."""
    try:
        act()
    except BaseException as error:  # noqa: BLE001 - pytest's are no Exceptions
        return error
    raise LookupError("nothing was raised")


class RunBodyTest(unittest.TestCase):
    """``run_body``, which runs a test in its rank and returns the result."""

    def test_statuses(self) -> None:
        """Passed, failed, error, skipped; the case's own setUp and tearDown are the parent's."""
        self.assertEqual(result_of(lambda case: None), RankResult(Status.PASSED))
        self.assertEqual(result_of(fail).status, Status.FAILED)
        self.assertEqual(result_of(divide).status, Status.ERROR)
        skipped = result_of(lambda case: case.skipTest("not here"))
        self.assertEqual((skipped.status, skipped.skip_reason), (Status.SKIPPED, "not here"))

    def test_first_problem_is_the_error(self) -> None:
        """The first problem is the error, and the traceback shows those of cleanups after it."""

        def body(case: unittest.TestCase) -> None:
            case.addCleanup(divide, case)
            case.fail("the test")

        error = result_of(body).error
        assert error is not None
        self.assertEqual(error.message, "the test")
        self.assertLess(error.traceback.index("the test"), error.traceback.index("ZeroDivisionError"))
        self.assertIn("Afterwards, while cleaning up:", error.traceback)

    def test_exit_is_no_problem_beside_another(self) -> None:
        """If the test both exits and fails, the failure is the error, whatever the exit code and order."""

        def exits(case: unittest.TestCase) -> None:
            case.addCleanup(divide, case)
            exit_with(0)

        def exits_late(case: unittest.TestCase) -> None:
            case.addCleanup(exit_with, 0)
            _ = 1 / 0

        for body in (exits, exits_late):
            result = result_of(body)
            assert result.error is not None
            self.assertEqual((result.status, result.error.type_name), (Status.ERROR, "ZeroDivisionError"))
            self.assertIn("SystemExit", result.error.traceback)
            # The error counts also if the exit code was announced, because an announcement only excuses
            # crashes.
            final = final_result(result, result.ending, [])
            self.assertEqual((final.status, final.note), (Status.ERROR, "by sys.exit"))

    def test_cleanup_after_skip(self) -> None:
        """A skipped test with a failing cleanup has failed."""

        def body(case: unittest.TestCase) -> None:
            case.addCleanup(fail, case)
            case.skipTest("not here")

        self.assertEqual(result_of(body).status, Status.FAILED)

    def test_failure_before_skip(self) -> None:
        """A failure counts although the test skipped afterwards, and all reasons to skip are kept."""

        def body(case: unittest.TestCase) -> None:
            with case.subTest(n=1):
                case.fail("no")
            case.addCleanup(case.skipTest, "nor here")
            case.skipTest("not here")

        result = result_of(body)
        self.assertEqual((result.status, result.skip_reason), (Status.FAILED, "not here; nor here"))
        self.assertEqual([s.status for s in result.subtests], [Status.FAILED])

    def test_pytest_functions(self) -> None:
        """Exceptions of pytest's functions are a skip, a failure and an expected failure, in hooks too."""
        rows: tuple[tuple[Any, RankResult], ...] = (
            (lambda: pytest.skip("not here"), RankResult(Status.SKIPPED, skip_reason="not here")),
            (lambda: pytest.fail("no"), RankResult(Status.FAILED)),
            (lambda: pytest.xfail("known"), RankResult(Status.FAILED, xfailed=True)),
        )
        for act, expected in rows:
            for result in (
                result_of(lambda case, act=act: act()),
                result_of(fail, set_up=act),
                result_of(lambda case: None, tear_down=act),
                final_result(None, raised_by(act), []),
            ):
                with self.subTest(expected):
                    self.assertEqual(replace(result, error=None), expected)

    def test_pytest_functions_beside_a_failure(self) -> None:
        """What nobody expected counts, before and after an expected failure, and in a sub-test."""

        def with_cleanup(case: unittest.TestCase) -> None:
            case.addCleanup(fail, case)
            pytest.xfail("known")

        def with_subtest(case: unittest.TestCase) -> None:
            with case.subTest(n=1):
                case.fail("no")
            with case.subTest(n=2):
                pytest.xfail("known")

        for body in (with_cleanup, with_subtest):
            result = result_of(body)
            self.assertEqual((result.status, result.xfailed), (Status.FAILED, False))

    def test_pytest_functions_in_subtests(self) -> None:
        """A skip is the sub-test's; what a sub-test expects is what the test expects, as by unittest."""

        def skips(case: unittest.TestCase) -> None:
            with case.subTest(n=1):
                pytest.skip("not here")

        def expects(case: unittest.TestCase) -> None:
            with case.subTest(n=1):
                pytest.xfail("known")

        result = result_of(skips)
        self.assertEqual(result.status, Status.PASSED)
        self.assertEqual([(s.status, s.skip_reason) for s in result.subtests], [(Status.SKIPPED, "not here")])
        self.assertTrue(result_of(expects).xfailed)

    def test_any_error_counts(self) -> None:
        """A failed assertion beside another exception is an error, whichever came first."""

        def body(case: unittest.TestCase) -> None:
            case.addCleanup(divide, case)
            case.fail("the test")

        self.assertEqual(result_of(body).status, Status.ERROR)

    def test_expected(self) -> None:
        """Only the failure of a method that announced it is an expected one."""

        def play(body: Any, tear_down: Any = lambda: None) -> RankResult:
            case_type = type("Body", (Body,), {"method": unittest.expectedFailure(body)})
            return run_body(case_type("method"), lambda: None, tear_down)

        self.assertEqual((play(divide).status, play(divide).expected), (Status.ERROR, True))
        self.assertEqual(play(lambda case: None).status, Status.PASSED)
        result = play(fail, lambda: 1 / 0)
        self.assertEqual((result.status, result.expected), (Status.ERROR, False))
        self.assertFalse(result_of(fail).expected)

    def test_messages_of_subtests(self) -> None:
        """A sub-test's message is its text, whatever object it is; no message is None."""

        def body(case: unittest.TestCase) -> None:
            for message in ([], ["a"], [5], [None]):
                with case.subTest(*message):
                    pass

        self.assertEqual([s.message for s in result_of(body).subtests], [None, "a", "5", "None"])

    def test_around(self) -> None:
        """Errors of setUpRank and tearDownRank count, and the method does not run if setUpRank failed."""
        ran: list[str] = []
        result = result_of(lambda case: ran.append("method"), lambda: 1 / 0, lambda: ran.append("down"))
        self.assertEqual((result.status, ran), (Status.ERROR, []))
        result = result_of(lambda case: ran.append("method"), tear_down=lambda: 1 / 0)
        self.assertEqual((result.status, ran), (Status.ERROR, ["method"]))

    def test_subtests(self) -> None:
        """Each sub-test has its own status, the worst one decides, and there is no error for the whole."""

        def body(case: unittest.TestCase) -> None:
            with case.subTest("part", n=0):
                case.assertTrue(True)
            with case.subTest("part", n=1):
                case.fail("no")
            with case.subTest("part", n=2):
                case.skipTest("no")

        result = result_of(body)
        self.assertEqual((result.status, result.error), (Status.FAILED, None))
        by_key = {s.key: s.status for s in result.subtests}
        expected = {0: Status.PASSED, 1: Status.FAILED, 2: Status.SKIPPED}
        self.assertEqual(by_key, {("part", (("n", str(n)),)): status for n, status in expected.items()})

    def test_failed_subtests_are_told_at_once(self) -> None:
        """A failed sub-test is reported as it ends; before Python 3.11, when the test is over."""
        told: list[Any] = []
        known: list[int] = []

        def body(case: unittest.TestCase) -> None:
            for n in range(3):
                with case.subTest(n=n):
                    case.assertNotEqual(n, 1)
                known.append(len(told))

        case_type = type("Body", (Body,), {"body": staticmethod(body)})
        result = run_body(case_type("method"), lambda: None, lambda: None, told.append)
        self.assertEqual(told, [s for s in result.subtests if s.status is Status.FAILED])
        self.assertEqual(known, [0, 1, 1] if sys.version_info >= (3, 11) else [0, 0, 0])

    def test_pass_that_nobody_saw(self) -> None:
        """A test passes only if unittest says so and its method was seen to return."""
        silent = {
            "_callTestMethod": lambda self, method: None,
            "_callSetUp": lambda self: self._outcome.__setattr__("success", False),
        }
        for name, replacement in silent.items():
            with self.subTest(name), mock.patch.object(unittest.TestCase, name, replacement):
                result = result_of(fail)
            assert result.error is not None
            self.assertEqual(result.status, Status.ERROR)
            self.assertIn("patched unittest", result.error.message)
        with mock.patch.object(unittest.TestCase, "run", lambda self, result: result):
            self.assertEqual(result_of(fail).status, Status.FAILED)

        @contextlib.contextmanager
        def deaf(self: object, *_: object, **__: object) -> Iterator[None]:
            with contextlib.suppress(Exception):
                yield

        with mock.patch("unittest.case._Outcome.testPartExecutor", deaf):
            self.assertEqual(result_of(fail).status, Status.ERROR)
        self.assertEqual(result_of(lambda case: None), RankResult(Status.PASSED))

    def test_unspeakable_parameter(self) -> None:
        """A sub-test parameter whose repr raises is shown as such."""

        class Unspeakable:
            def __repr__(self) -> str:
                raise RuntimeError

        def body(case: unittest.TestCase) -> None:
            with case.subTest(n=Unspeakable()):
                case.fail()

        (subtest,) = result_of(body).subtests
        self.assertEqual(subtest.params, (("n", "<repr raised RuntimeError>"),))

    def test_system_exit(self) -> None:
        """A test's SystemExit is kept, so that the process can end by it."""
        ending = result_of(lambda case: exit_with(7)).ending
        assert ending is not None
        self.assertEqual(ending.code, 7)

    def test_keyboard_interrupt(self) -> None:
        """KeyboardInterrupt is passed on."""
        with self.assertRaises(KeyboardInterrupt):
            result_of(lambda case: interrupt())

    def test_originals(self) -> None:
        """What the body leaves replaced is told and put back, also where an exception ends it."""
        self.addCleanup(originals.apply, originals.restore())
        self.addCleanup(originals.restore)

        def body(case: unittest.TestCase) -> None:
            json.dumps, builtins.str, builtins.hasattr = replaced  # type: ignore[misc]

        replaced = [mock.Mock(side_effect=ZeroDivisionError) for _ in range(3)]
        result = result_of(body)
        self.assertEqual(result.status, Status.PASSED, result.error)
        self.assertEqual({str(patch) for patch in result.patches}, {"json.dumps", "str", "hasattr"})
        self.assertEqual(originals.patched(), ())
        with self.assertRaises(KeyboardInterrupt):
            result_of(body, tear_down=interrupt)
        self.assertEqual(originals.patched(), ())


def exit_with(code: int) -> None:
    """Raises a SystemExit with a code."""
    raise SystemExit(code)


def interrupt() -> None:
    """Raises KeyboardInterrupt, as Ctrl-C does."""
    raise KeyboardInterrupt


class FinalResultTest(unittest.TestCase):
    """``final_result``: the status from a result, the end of ``_run`` and texts over upstream's pipe."""

    def test_table(self) -> None:
        """Each combination that there is."""
        passed, failed = RankResult(Status.PASSED), RankResult(Status.FAILED)
        for result, ending, texts, status in [
            (passed, None, [], Status.PASSED),
            (failed, None, [], Status.FAILED),
            (None, None, [], Status.CRASHED),
            (passed, ValueError("after the test"), [], Status.ERROR),
            (passed, AssertionError("after the test"), [], Status.FAILED),
            (failed, ValueError("after the test"), [], Status.FAILED),
            (None, KeyboardInterrupt(), [], Status.ERROR),
            (passed, SystemExit(0), [], Status.PASSED),
            (passed, SystemExit(None), [], Status.PASSED),
            (passed, SystemExit(7), [], Status.CRASHED),
            (failed, SystemExit(10), [], Status.FAILED),
            (None, SystemExit(0), [], Status.CRASHED),
            (None, SystemExit(10), ["Traceback\nValueError: x\n"], Status.ERROR),
        ]:
            with self.subTest(result=result, ending=repr(ending), texts=texts):
                self.assertEqual(final_result(result, ending, texts).status, status)

    def test_text_over_the_pipe(self) -> None:
        """The last line of a text sent over the pipe is the error's message."""
        error = final_result(None, SystemExit(10), ["Traceback ...\nValueError: x\n"]).error
        assert error is not None
        self.assertEqual(
            (error.message, error.traceback), ("ValueError: x", "Traceback ...\nValueError: x\n")
        )


if __name__ == "__main__":
    unittest.main()
