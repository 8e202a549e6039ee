"""Self-tests of harness.testcase: the assertions as a test's author calls them, and the seed of each test."""

from __future__ import annotations

import os
import random
import unittest
import unittest.mock
import warnings
from typing import Any, ClassVar

import torch

from harness.parametrization import parametrize
from harness.testcase import TestCase

ARGUMENTS: list[tuple[Any, Any, dict[str, Any]]] = [
    (torch.ones(2), torch.ones(2) + 1e-3, {}),
    (torch.ones(2), torch.ones(2) + 1e-3, {"atol": 1e-2, "rtol": 0}),
    (torch.tensor([1]), torch.tensor([1.0]), {"exact_dtype": False}),
    (torch.tensor([1]), torch.tensor([1.0]), {}),
    (float("nan"), float("nan"), {"equal_nan": False}),
    (torch.ones(1), torch.ones(1, device="meta"), {"exact_device": True}),
    (torch.ones(2, 2).t(), torch.ones(2, 2), {"exact_stride": True}),
    (torch.ones(1).to_sparse(), torch.ones(1), {"exact_layout": True}),
    ("a", "a", {}),
    (None, 1, {}),
    ([], {}, {}),
]


class EqualityTest(unittest.TestCase):
    def setUp(self) -> None:
        self.case = TestCase()

    def test_not_equal_is_the_complement(self) -> None:
        for x, y, kwargs in ARGUMENTS:
            with self.subTest(x=x, y=y, **kwargs):
                self.assertNotEqual(
                    self.passes("assertEqual", x, y, kwargs), self.passes("assertNotEqual", x, y, kwargs)
                )

    def passes(self, name: str, x: Any, y: Any, kwargs: dict[str, Any]) -> bool:
        try:
            getattr(self.case, name)(x, y, **kwargs)
        except AssertionError:
            return False
        return True

    def test_a_mistake_in_the_call_is_not_inequality(self) -> None:
        for assertion in (self.case.assertEqual, self.case.assertNotEqual):
            for x, y in ((1, 2), ("a", "b"), (torch.ones(1), torch.zeros(1)), ([], [1])):
                with self.subTest(assertion=assertion.__name__, x=x, y=y):
                    with self.assertRaisesRegex(ValueError, "give both tolerances or neither"):
                        assertion(x, y, atol=1)
                    with self.assertRaisesRegex(ValueError, "give both tolerances or neither"):
                        assertion(x, y, rtol=1)
            with self.assertRaisesRegex(ValueError, "a number was compared with 2 elements"):
                assertion(torch.ones(2), 1)

    def test_message(self) -> None:
        with self.assertRaisesRegex(AssertionError, r"(?s)^Scalars are not equal!.*item \[0\]\nmine$"):
            self.case.assertEqual([1], [2], "mine")
        with self.assertRaisesRegex(AssertionError, r"(?s)^<Scalars.*got 1\.>$"):
            self.case.assertEqual(1, 2, lambda text: f"<{text}>")
        with self.assertRaisesRegex(AssertionError, r"^Expected different values, but 1 equals 1.0\nmine$"):
            self.case.assertNotEqual(1, 1.0, "mine")
        self.case.longMessage = False
        with self.assertRaisesRegex(AssertionError, "^mine$"):
            self.case.assertEqual(1, 2, "mine")

    def test_the_failure_is_the_class_own(self) -> None:
        class Unwell(AssertionError):
            pass

        class Case(TestCase):
            failureException = Unwell

        with self.assertRaises(Unwell):
            Case().assertEqual(torch.ones(1), torch.zeros(1))
        with self.assertRaises(Unwell):
            Case().assertEqual({1}, {2})
        Case().assertNotEqual({1}, {2})

    def test_least_tolerances(self) -> None:
        class Case(TestCase):
            precision = 0.1

        Case().assertEqual(torch.zeros(1), torch.full((1,), 0.09))
        with self.assertRaises(AssertionError):
            Case().assertEqual(torch.zeros(1), torch.full((1,), 0.2))
        with self.assertRaises(AssertionError):
            Case().assertEqual(torch.zeros(1), torch.full((1,), 0.09), atol=0, rtol=0)
        Case().assertNotEqual(torch.zeros(1), torch.full((1,), 0.2))

    def test_types_are_ignored_on_request(self) -> None:
        self.case.assertEqualIgnoreType(torch.ones(1), torch.ones(1, dtype=torch.int64))
        with self.assertRaises(AssertionError):
            self.case.assertEqualIgnoreType(torch.ones(1), torch.zeros(1, dtype=torch.int64))

    def test_a_users_own_type_comparison_is_asked(self) -> None:
        class Word:
            def __init__(self, text: str) -> None:
                self.text = text

        def same(first: Word, second: Word, msg: object = None) -> None:
            if first.text.lower() != second.text.lower():
                raise AssertionError(f"{first.text} is another word than {second.text}")

        self.case.addTypeEqualityFunc(Word, same)
        self.case.assertEqual([Word("a")], [Word("A")])
        with self.assertRaisesRegex(AssertionError, r"(?s)a is another word than b.*item \[0\]"):
            self.case.assertEqual([Word("a")], [Word("b")])


class Special(UserWarning):
    pass


class WarningTest(unittest.TestCase):
    def setUp(self) -> None:
        self.case = TestCase()

    def test_category_and_message_of_one_warning(self) -> None:
        with self.case.assertWarnsOnceRegex(UserWarning, "he.*o"):
            warnings.warn("hello", UserWarning, stacklevel=1)

    def test_a_miss_lists_what_was_seen(self) -> None:
        misses: list[tuple[type[Warning], str]] = [
            (FutureWarning, "hello"),
            (UserWarning, "say hello"),
            (Warning, "hello"),
            (Special, "hello"),
        ]
        for category, text in misses:
            with (
                self.subTest(category=category, text=text),
                warnings.catch_warnings(record=True),
                self.assertRaisesRegex(AssertionError, f"{category.__name__}: {text}"),
                self.case.assertWarnsOnceRegex(UserWarning, "hello"),
            ):
                warnings.warn(text, category, stacklevel=1)

    def test_category_and_message_may_not_be_two_warnings(self) -> None:
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            with self.assertRaises(AssertionError), self.case.assertWarnsOnceRegex(UserWarning, "hello"):
                warnings.warn("bye", UserWarning, stacklevel=1)
                warnings.warn("hello", FutureWarning, stacklevel=1)

    def test_no_warning_at_all(self) -> None:
        with (
            self.assertRaisesRegex(AssertionError, "none at all"),
            self.case.assertWarnsOnceRegex(UserWarning),
        ):
            pass

    def test_other_warnings_come_through(self) -> None:
        with warnings.catch_warnings(record=True) as outside:
            warnings.simplefilter("always")
            with self.case.assertWarnsOnceRegex(UserWarning, "hello"):
                warnings.warn("hello", UserWarning, stacklevel=1)
                warnings.warn("other", UserWarning, stacklevel=1)
                warnings.warn("hello", FutureWarning, stacklevel=1)
            with self.assertRaises(LookupError), self.case.assertWarnsOnceRegex(UserWarning, "hello"):
                warnings.warn("last", UserWarning, stacklevel=1)
                raise LookupError
        self.assertEqual([str(w.message) for w in outside], ["other", "hello", "last"])

    def test_torch_warns_each_time_within_and_is_left_as_it_was(self) -> None:
        for before in (False, True):
            torch.set_warn_always(before)
            self.addCleanup(torch.set_warn_always, False)
            with self.case.assertWarnsOnceRegex(UserWarning):
                self.assertTrue(torch.is_warn_always_enabled())
                warnings.warn("hello", UserWarning, stacklevel=1)
            self.assertEqual(torch.is_warn_always_enabled(), before)


def run(case: type[unittest.TestCase], name: str) -> unittest.TestResult:
    result = unittest.TestResult()
    case(name).run(result)
    return result


class SeededTest(unittest.TestCase):
    class Draws(TestCase):
        drawn: ClassVar[list[tuple[float, float]]] = []

        def setUp(self) -> None:
            # Before super().setUp(), where most authors put it last or forget it.
            self.drawn.append((random.random(), float(torch.rand(()))))

        def test_one(self) -> None:
            self.drawn.append((random.random(), float(torch.rand(()))))

    def setUp(self) -> None:
        self.Draws.drawn.clear()

    def test_setup_and_body_repeat(self) -> None:
        for _ in range(2):
            self.assertTrue(run(self.Draws, "test_one").wasSuccessful())
        self.Draws("test_one").debug()
        first, second, third = (self.Draws.drawn[i : i + 2] for i in (0, 2, 4))
        self.assertEqual(first, second)
        self.assertEqual(first, third)
        self.assertNotEqual(first[0], first[1])

    def test_the_environment_decides_at_each_test(self) -> None:
        run(self.Draws, "test_one")
        with unittest.mock.patch.dict(os.environ, HARNESS_SEED="5"):
            run(self.Draws, "test_one")
        random.seed(5)
        self.assertEqual(self.Draws.drawn[2][0], random.random())
        self.assertNotEqual(self.Draws.drawn[0], self.Draws.drawn[2])


class OutcomeTest(unittest.TestCase):
    """Skips, expected failures, errors and failures of a ``TestCase`` are those of unittest."""

    class Case(TestCase):
        def test_skip(self) -> None:
            raise unittest.SkipTest("no reason")

        @unittest.expectedFailure
        def test_expected(self) -> None:
            self.fail("as expected")

        def test_error(self) -> None:
            raise KeyError("k")

        def test_failure(self) -> None:
            self.assertEqual(torch.ones(1), torch.zeros(1))

        @parametrize("x", [1])
        def test_forgotten(self, x: int = 0) -> None:
            pass

    def test_kinds(self) -> None:
        self.assertEqual(run(self.Case, "test_skip").skipped[0][1], "no reason")
        self.assertEqual(len(run(self.Case, "test_expected").expectedFailures), 1)
        self.assertEqual(len(run(self.Case, "test_error").errors), 1)
        self.assertEqual(len(run(self.Case, "test_failure").failures), 1)

    def test_a_class_that_was_not_instantiated(self) -> None:
        ((_, text),) = run(self.Case, "test_forgotten").errors
        self.assertIn("ValueError: Case.test_forgotten is parametrized, but Case was not instantiated", text)


if __name__ == "__main__":
    unittest.main()
