"""The front ends notice what would make running a test again worthless: nothing traced, nothing cached."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch._functorch import aot_autograd
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache

from harness import DynamoTestCase, TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.errors import UsageError
from harness.graphs import verify_aot
from suites.aot.autograd_cache import Codes
from suites.aot.base import AotTestCase
from suites.aot.front_ends import ThroughCache, ThroughDynamo
from suites.aot.known import Known, expect
from suites.aot.rerun import rerun


def product(a, b):
    return a.sin() * b


def inputs():
    return [torch.ones(2, 3, requires_grad=True), torch.arange(3.0)]


class FrontEndTest(DynamoTestCase):
    def verify(self, front_end, function=product):
        verify_aot(function, inputs(), front_end=front_end)

    def notices(self, words, front_end, function=product):
        """Check that the verification fails with these words."""
        with self.assertRaisesRegex(AssertionError, words):
            self.verify(front_end, function)

    def test_counts(self):
        for front_end in (ThroughDynamo(), ThroughCache()):
            self.verify(front_end)
            # Two rounds, with and without writes to inputs in the graph.
            self.assertEqual(front_end.entries, 2 * front_end.runs)

    def test_cache_that_never_hits(self):
        with mock.patch.object(AOTAutogradCache, "_lookup", return_value=None):
            self.notices("run 2: the cache counts", ThroughCache())

    def test_cache_that_is_off(self):
        with mock.patch.object(aot_autograd, "should_use_local_autograd_cache", return_value=False):
            self.notices("run 1: the cache counts {}", ThroughCache())

    def test_cache_that_saves_nothing(self):
        with mock.patch.object(AOTAutogradCache, "save"):
            self.notices("run 1: the cache counts", ThroughCache())

    def test_cache_that_finds_other_code(self):
        load = Codes.load

        def wrong(codes, key, *args, **kwargs):
            code, information = load(codes, key)

            class Wrong(type(code)):
                def __call__(self, inputs):
                    first, *rest = super().__call__(inputs)
                    return [first * 2, *rest]

            code.__class__ = Wrong
            return code, information

        with mock.patch.object(Codes, "load", wrong):
            self.notices("run 2.*\n  .*values differ", ThroughCache())

    def test_what_does_not_break(self):
        self.notices("traced it whole", ThroughDynamo(breaks=True))

    def test_what_breaks(self):
        def broken(a, b):
            torch._dynamo.graph_break()
            return product(a, b)

        self.verify(ThroughDynamo(breaks=True), broken)
        with self.assertRaises(torch._dynamo.exc.Unsupported):
            self.verify(ThroughDynamo(), broken)


def base():
    """Tests to run again. Made here, so that unittest does not find them."""

    class Base(AotTestCase):
        def test_verifies(self):
            self.verify(product, inputs())

        def test_alone(self):
            self.assertEqual(product(torch.zeros(1), 2), torch.zeros(1))

    return Base


class RerunTest(TestCase):
    def again(self, *bases, **options):
        options = {"stay": {}, "breaks": {}, **options}
        return rerun("Again", __name__, bases, ThroughDynamo, **options)

    def verdict(self, cls, test):
        """Names of what unittest's result has of a test."""
        result = unittest.TestResult()
        cls(test).run(result)
        kinds = ("errors", "failures", "expectedFailures", "unexpectedSuccesses")
        return [kind for kind in kinds if getattr(result, kind)]

    def test_through_the_front_end_or_not_at_all(self):
        again = self.again(base())
        self.assertEqual(self.verdict(again, "test_verifies"), [])
        self.assertEqual(self.verdict(again, "test_alone"), ["failures"])
        again = self.again(base(), stay={"test_alone": "it compiles nothing"})
        self.assertEqual(unittest.defaultTestLoader.getTestCaseNames(again), ["test_verifies"])

    def test_without_dynamo(self):
        with mock.patch.object(torch, "compile", lambda function, **options: function):
            self.assertEqual(self.verdict(self.again(base()), "test_verifies"), ["failures"])

    def test_known(self):
        known = Known("test_alone", "AssertionError", "does not go through dynamo", "it compiles nothing")
        again = self.again(base(), known=[known])
        self.assertEqual(self.verdict(again, "test_alone"), ["expectedFailures"])

    def test_tables_name_tests(self):
        for options in (
            {"stay": {"test_gone": "it is gone"}},
            {"breaks": {"test_gone": "it is gone"}},
            {"known": [Known("test_gone", "AssertionError", "", "it is gone")]},
        ):
            with self.subTest(**options), self.assertRaisesRegex(UsageError, "no test test_gone"):
                self.again(base(), **options)

    def test_expected_failures(self):
        """With their reason they are run again, and expected there too; bare ones are refused."""

        class Fails(AotTestCase):
            def test_fails(self):
                self.verify(product, inputs(), front_end=self.front_end)
                raise ValueError("so")

        for decorator, verdict in (
            (expect(Known("", "ValueError", "^so$", "it does")), ["expectedFailures"]),
            (expect(Known("", "ValueError", "^other$", "it does")), ["errors"]),
        ):
            with self.subTest(verdict=verdict):
                case = type("Fails", (Fails,), {"test_fails": decorator(Fails.test_fails)})
                self.assertEqual(self.verdict(self.again(case), "test_fails"), verdict)
        case = type("Fails", (Fails,), {"test_fails": unittest.expectedFailure(Fails.test_fails)})
        with self.assertRaisesRegex(UsageError, r"test_fails has a bare .*expect\(Known"):
            self.again(case)

    def test_two_tests_of_one_name(self):
        class Other(AotTestCase):
            def test_alone(self):
                pass

        with self.assertRaisesRegex(UsageError, "Base and Other both have test_alone"):
            self.again(base(), Other)


if __name__ == "__main__":
    run_tests()
