"""Tests by what a test's method is known to have run to its end."""

from __future__ import annotations

import asyncio
import pickle
import unittest
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any
from unittest import mock

from harness import TestCase, timeout
from harness.errors import MethodNotRun, UsageError
from harness.watched_method import (
    WatchedMethod,
    error_of_pass,
    require_ordinary,
    warning_of_pass,
    ways_to_methods,
)


class Methods(unittest.TestCase):
    """Methods of all kinds."""

    def ordinary(self) -> int:
        """Returns a number."""
        return 5

    @unittest.expectedFailure
    def marked(self) -> int:
        """Returns another number."""
        return 7

    def raises(self) -> None:
        """Raises an error."""
        raise ValueError

    async def coroutine(self) -> None:
        """Runs where somebody awaits it."""

    def generator(self) -> Iterator[None]:
        """Runs where somebody iterates."""
        yield

    async def asynchronous_generator(self) -> AsyncIterator[None]:
        """Runs where somebody iterates asynchronously."""
        yield

    @timeout(60.0)
    def required_generator(self) -> Iterator[None]:
        """Is one below a requirement, too."""
        yield

    @timeout(60.0)
    async def required_coroutine(self) -> None:
        """Is one below a requirement, too."""

    def hides_a_coroutine(self) -> Any:
        """Returns what a decorator returns of a coroutine function."""
        return self.coroutine()


def called(name: str) -> WatchedMethod:
    """A method that was called, with what it returned thrown away."""
    watched = WatchedMethod(Methods(name), getattr(Methods(name), name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own, about a coroutine that was never awaited
        watched.call()
    return watched


class OrdinaryTest(unittest.TestCase):
    """``require_ordinary``: methods that no rank would run, in one line."""

    def test_methods(self) -> None:
        """Coroutine and generator functions are refused, below a requirement too; what hides one is not."""
        for name, what in (
            ("coroutine", "is an async def"),
            ("generator", "has a yield"),
            ("asynchronous_generator", "is an async def"),
            ("required_coroutine", "is an async def"),
        ):
            with self.subTest(name), self.assertRaisesRegex(UsageError, rf"^{name} {what}, and [^\n]+\)$"):
                require_ordinary(getattr(Methods, name), Methods(name))
        for name in ("ordinary", "hides_a_coroutine"):
            require_ordinary(getattr(Methods, name), Methods(name))
        require_ordinary(None)

    def test_event_loop(self) -> None:
        """unittest's case for coroutines is refused whatever its method is."""

        class Async(Methods, unittest.IsolatedAsyncioTestCase):
            pass

        with self.assertRaisesRegex(UsageError, "^an IsolatedAsyncioTestCase cannot run on ranks"):
            require_ordinary(Async.ordinary, Async("ordinary"))


class WatchedMethodTest(unittest.TestCase):
    """``WatchedMethod``: entered, ended, and not deferred."""

    def test_ordinary(self) -> None:
        """A method that returned has run, whatever it returned."""
        case = Methods("ordinary")
        watched = WatchedMethod(case, case.ordinary)
        self.assertEqual(watched.call(), 5)
        self.assertIsNone(watched.not_run())
        watched.require_run()

    def test_deferred(self) -> None:
        """A method whose body waits for somebody to run it has not run."""
        for name, what in (
            ("coroutine", "a coroutine"),
            ("generator", "a generator"),
            ("asynchronous_generator", "an asynchronous generator"),
            ("hides_a_coroutine", "a coroutine"),
            ("required_generator", "a generator"),
            ("required_coroutine", "a coroutine"),
        ):
            with self.subTest(name), self.assertRaisesRegex(MethodNotRun, f"returned {what}, and its body"):
                called(name).require_run()

    def test_somebody_ran_it(self) -> None:
        """A coroutine that was awaited to its end has run, as unittest's own case for them does it."""

        class Async(Methods, unittest.IsolatedAsyncioTestCase):
            pass

        for case in (Methods("coroutine"), Async("coroutine")):
            for name in ("coroutine", "hides_a_coroutine"):
                watched = WatchedMethod(case, getattr(case, name))
                asyncio.run(watched.call())
                self.assertIsNone(watched.not_run())

    def test_patched(self) -> None:
        """A method that nobody called, or of which nobody saw the end, has not run."""
        case = Methods("raises")
        watched = WatchedMethod(case, case.raises)
        self.assertIn("never called", str(watched.not_run()))
        self.assertRaises(ValueError, watched.call)
        self.assertIn("had not returned", str(watched.not_run()))

    def test_looks_like_the_method(self) -> None:
        """It has the method's attributes and name, by which cases pickle their bound methods."""
        case = Methods("marked")
        call: Any = WatchedMethod(case, case.marked).call
        self.assertTrue(call.__unittest_expecting_failure__)
        with mock.patch.object(Methods, "__reduce__", lambda self: (Methods, ("marked",))):
            self.assertEqual(pickle.loads(pickle.dumps(call))(), 7)

    def test_warning_of_pass(self) -> None:
        """A pass of a class that is not the harness's is warned of, unless the class runs coroutines."""
        for name in ("coroutine", "generator", "asynchronous_generator"):
            self.assertIn("its body did not run", warning_of_pass(Methods(name)) or "")
        self.assertIsNone(warning_of_pass(Methods("ordinary")))

        class Async(unittest.IsolatedAsyncioTestCase):
            async def coroutine(self) -> None:
                """Is awaited by unittest."""

        self.assertIsNone(warning_of_pass(Async("coroutine")))
        self.assertIsNone(warning_of_pass(unittest.FunctionTestCase(lambda: None)))


class ErrorOfPassTest(unittest.TestCase):
    """``error_of_pass``: passes after a test that has replaced how unittest gets to methods."""

    def test_ways(self) -> None:
        """Each way counts while it is replaced, for the classes that inherit it from unittest."""

        class OwnWay(unittest.TestCase):
            def run(self, result: unittest.TestResult | None = None) -> None:
                """Runs the test in a way of its own."""

        ways = ways_to_methods()
        case = Methods("ordinary")
        self.assertIsNone(error_of_pass(case, ways))
        for name in ways:
            with self.subTest(name), mock.patch.object(unittest.TestCase, name, lambda *_: None):
                self.assertIn(f"replaced TestCase.{name}", str(error_of_pass(case, ways)))
                self.assertIsNone(error_of_pass(case, ways_to_methods()), "replaced before the first test")
                self.assertEqual(error_of_pass(OwnWay(), ways) is None, name == "run")


class TestCaseTest(unittest.TestCase):
    """``harness.TestCase`` in one process."""

    def run_one(self, *bases: type, expected: bool = False, patched: bool = False) -> unittest.TestResult:
        async def method(case: unittest.TestCase) -> None:
            case.fail("it runs")

        own: Any = type("Own", bases, {"method": unittest.expectedFailure(method) if expected else method})
        result = unittest.TestResult()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            own("method").run(result)
        return result

    def test_coroutine(self) -> None:
        """A coroutine method is an error, also where a failure is expected."""
        for expected in (False, True):
            result = self.run_one(TestCase, expected=expected)
            self.assertEqual((len(result.errors), result.expectedFailures), (1, []))
            self.assertIn("its body did not run", result.errors[0][1])

    def test_event_loop(self) -> None:
        """Beside unittest's case for coroutines it is run."""
        result = self.run_one(TestCase, unittest.IsolatedAsyncioTestCase)
        self.assertEqual((len(result.failures), result.errors), (1, []))

    def test_patched(self) -> None:
        """Where unittest does not call the method, the test is an error."""
        with mock.patch.object(unittest.TestCase, "_callTestMethod", lambda self, method: None):
            result = self.run_one(TestCase)
        self.assertEqual(len(result.errors), 1)


if __name__ == "__main__":
    unittest.main()
