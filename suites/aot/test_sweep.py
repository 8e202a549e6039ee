"""The sweeps judge rightly: what differs is found, what is known is expected, and everything else fails."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch

from harness import DynamoTestCase, TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.aot import agreement, sweep
from suites.aot.agreement import Call, check_call
from suites.aot.known import Known, expect
from suites.aot.sweep import add_test, check_samples, in_sample, shown, some


def eager(function, **options):
    """In the place of ``aot_function``: no compiler at all."""
    return function


class AgreementTest(DynamoTestCase):
    """``check_call`` finds each thing that a compiler may do wrong."""

    def differs(self, call, *words, **options):
        """Check that the call is found wrong, and that all ``words`` are said."""
        with self.assertRaises(AssertionError) as caught:
            check_call(call, dynamic=False, **options)
        for each in words:
            self.assertIn(each, str(caught.exception))

    def faulty(self, fault):
        """Put ``fault(function)``, compiled, in the place of each function from now on."""
        compile_rightly = agreement.aot_function

        def faulty(function, **options):
            return compile_rightly(fault(function), **options)

        patch = mock.patch.object(agreement, "aot_function", faulty)
        patch.start()
        self.addCleanup(patch.stop)

    def call(self, function, *tensors):
        return Call.of(function, tensors, {})

    def test_agrees(self):
        for dynamic in (False, True):
            for grad in (False, True):
                x = torch.randn(3, 2, requires_grad=grad)
                check_call(Call.of(torch.add, [x, x.t().contiguous().t()], {"alpha": 2}), dynamic=dynamic)

    def test_containers_and_other_arguments(self):
        check_call(Call.of(torch.cat, [[torch.ones(2), torch.zeros(1)]], {"dim": 0}), dynamic=False)
        call = Call.of(torch.sum, [torch.ones(2, 3)], {"dim": (0, 1), "dtype": torch.float64})
        self.assertEqual(call.function(torch.ones(2, 3) * 2), torch.tensor(12.0, dtype=torch.float64))
        self.assertEqual(len(call.tensors), 1)

    def test_not_compiled(self):
        with mock.patch.object(agreement, "aot_function", eager):
            self.differs(self.call(torch.sin, torch.ones(3)), "compiled were {}, run {} in 1 calls")

    def test_values(self):
        self.faulty(lambda function: lambda *args: function(*args) * 1.01)
        self.differs(self.call(torch.sin, torch.ones(3)), "the output: values differ: at [0]")

    def test_dtype_and_shape(self):
        self.faulty(lambda function: lambda *args: function(*args).double()[:2])
        self.differs(self.call(torch.sin, torch.ones(3)), "dtype float64", "shape (2,)")

    def test_strides(self):
        self.faulty(lambda function: lambda *args: function(*args).t().contiguous().t())
        self.differs(self.call(torch.sin, torch.ones(3, 2)), "the output: stride (1, 3) compiled, (2, 1)")

    def test_lost_gradient(self):
        self.faulty(lambda function: lambda *args: function(*args).detach() + 0 * args[0])
        self.differs(self.call(torch.sin, torch.ones(3, requires_grad=True)), "gradient of input 0")

    def test_doubled_gradient(self):
        self.faulty(lambda function: lambda *args: 2 * function(*args) - function(*args).detach())
        self.differs(self.call(torch.sin, torch.ones(3, requires_grad=True)), "gradient of input 0")

    def test_lost_mutation(self):
        self.faulty(lambda function: lambda *args: function(*(arg.clone() for arg in args)))
        self.differs(self.call(torch.Tensor.mul_, torch.ones(3), torch.ones(3) * 2), "input 0: values differ")

    def test_lost_alias(self):
        self.faulty(lambda function: lambda *args: function(*args).clone())
        self.differs(self.call(torch.t, torch.ones(3, 2)), "shares memory with nothing compiled, input 0")

    def test_value_of_the_first_call(self):
        """A graph that has a value baked in is right as long as that value comes."""

        def baked(function):
            return lambda *args: torch.full_like(args[0], 0.5) + 0 * function(*args)

        self.faulty(baked)
        # The second comparison alone can tell.
        self.differs(self.call(lambda x: x + 0, torch.full((3,), 0.5)), "values differ")

    def test_memory_of_the_first_call(self):
        """Each output is right when it is returned, and then written over."""

        def static(function, **options):
            compiled, held = compile_rightly(function, **options), []

            def call(*args):
                out = compiled(*args)
                held[:] = held or [out]
                return held[0].copy_(out)

            return call

        compile_rightly = agreement.aot_function
        with mock.patch.object(agreement, "aot_function", static):
            self.differs(
                self.call(torch.sin, torch.ones(3)),
                "the output of the first call: the second call changed its values",
                "the output: shares memory with the output of the first call",
            )

    def test_what_eager_refuses_on_other_values(self):
        refused = []

        def picky(x):
            if type(x) is torch.Tensor and bool((x < 1).any()):  # not as it is traced
                refused.append(x)
                raise ValueError("too small")
            return x * 2

        check_call(self.call(picky, torch.ones(3)), dynamic=False)
        self.assertEqual(len(refused), 1)

    def test_same_draws(self):
        check_call(self.call(torch.nn.functional.dropout, torch.ones(100)), dynamic=False)

    def test_uninitialised(self):
        self.faulty(lambda function: lambda *args: function(*args) + 1)
        check_call(self.call(torch.zeros_like, torch.ones(3)), dynamic=False, compare_values=False)
        self.differs(self.call(torch.zeros_like, torch.ones(3)), "values differ")


class Boom(Exception):
    """Fails a sample."""


KNOWN = Known("x", "Boom", "^two$", "it is known")


def outcome(samples, known, most=None):
    """What becomes of a test of ``most`` of these samples, of which None passes and a text fails with it."""

    class Case(TestCase):
        pass

    def check(sample):
        if sample is not None:
            raise Boom(sample)

    def body(self):
        check_samples(self, samples, check, str, known)

    add_test(Case, "test_x", body, fails=bool(known), long=False)
    with mock.patch.object(sweep, "MOST", most):
        return ran(Case, "test_x")


def ran(cls, name):
    """The verdict on a test, and its message."""
    result = unittest.TestResult()
    with mock.patch.dict("os.environ", PYTORCH_TEST_WITH_SLOW="1"):
        cls(name).run(result)
    if result.unexpectedSuccesses:
        return "unexpected success", ""
    for verdict in ("errors", "failures", "expectedFailures", "skipped"):
        for _, told in getattr(result, verdict):
            return verdict, told
    return "passed", ""


class JudgementTest(TestCase):
    """``check_samples`` and ``expect`` let through what is known, and nothing else."""

    def test_all_pass(self):
        self.assertEqual(outcome([None, None], ()), ("passed", ""))

    def test_no_samples(self):
        verdict, told = outcome([], ())
        self.assertEqual(verdict, "failures")
        self.assertIn("nothing was tested", told)

    def test_known_in_some_releases(self):
        known = Known("x", "Boom", "", "it is known", since="2.12", before="2.13")
        for release, concerned in (("2.11.0", False), ("2.12.1+cu130", True), ("2.13.0+cpu", False)):
            with self.subTest(release), mock.patch.object(torch, "__version__", release):
                self.assertEqual(known.concerns("x"), concerned)

    def test_unknown_failures(self):
        verdict, told = outcome([None, "one", "two", "two"], ())
        self.assertEqual(verdict, "errors")
        for words in ("Boom: one", "sample 1: one", "3 of 4 samples fail", "2 x Boom: two"):
            self.assertIn(words, told)

    def test_known_failure(self):
        verdict, told = outcome([None, "two"], [KNOWN])
        self.assertEqual(verdict, "expectedFailures")
        self.assertIn("known: it is known", told)

    def test_known_and_unknown_failure(self):
        verdict, told = outcome(["two", "one"], [KNOWN])
        self.assertEqual(verdict, "errors")
        self.assertIn("Boom: one", told)

    def test_known_failure_that_is_gone(self):
        for samples in ([None, None], []):
            verdict, told = outcome(samples, [KNOWN])
            self.assertEqual(verdict, "failures")
        self.assertIn("there is no sample", told)
        self.assertIn("take it off the table", outcome([None], [KNOWN])[1])

    def test_one_of_two_known_failures_is_gone(self):
        other = Known("x", "Boom", "^three$", "it is known too")
        self.assertEqual(outcome(["two", "three"], [KNOWN, other])[0], "expectedFailures")
        verdict, told = outcome(["two"], [KNOWN, other])
        self.assertEqual(verdict, "failures")
        self.assertIn("'^three$'", told)

    def test_expect(self):
        def body(text):
            def test(self):
                if text == "skip":
                    self.skipTest("no reason")
                if text:
                    raise Boom(text)

            return type("Case", (TestCase,), {"test_x": expect(KNOWN)(test)})

        self.assertEqual(ran(body("two"), "test_x")[0], "expectedFailures")
        self.assertEqual(ran(body("one"), "test_x")[0], "errors")
        self.assertEqual(ran(body(""), "test_x")[0], "failures")
        self.assertEqual(ran(body("skip"), "test_x")[0], "skipped")

    def test_sample(self):
        names = [f"test_{number}" for number in range(2000)]
        sampled = [name for name in names if in_sample(name)]
        self.assertLess(abs(len(sampled) - 200), 60)
        # A matter of the name alone, whatever else there is, and on every machine.
        self.assertEqual(
            [name for name in names[:40] if in_sample(name)],
            ["test_2", "test_9", "test_11", "test_19", "test_32"],
        )

    def test_some_calls(self):
        """From the first to the last, none twice; all where they are few, or where there is no limit."""
        self.assertEqual(some("abcdefghi", 5), [(0, "a"), (2, "c"), (4, "e"), (6, "g"), (8, "i")])
        self.assertEqual(some("abcdef", 5), [(0, "a"), (1, "b"), (2, "c"), (3, "d"), (5, "f")])
        for most in (3, 4, None):
            self.assertEqual(some("abc", most), [(0, "a"), (1, "b"), (2, "c")])

    def test_which_calls_are_tried(self):
        """A failure of one of few is told with its number; where one is known to fail all are tried."""
        samples = ["one", *[None] * 5, "two", *[None] * 4]
        verdict, told = outcome(samples, (), most=5)
        self.assertEqual(verdict, "errors")
        self.assertIn("sample 0: one", told)
        self.assertIn("1 of 5 samples fail", told)
        self.assertEqual(outcome(samples[1:], [KNOWN], most=5)[0], "expectedFailures")
        self.assertIn("2 of 11 samples fail", outcome(samples, ())[1])

    def test_shown(self):
        said = shown([torch.ones(2, 3), [torch.ones(1).int()], None], {"dim": 1})
        self.assertEqual(said, "float32[2, 3], [int32[1]], None, dim=1")


if __name__ == "__main__":
    run_tests()
