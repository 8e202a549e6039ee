"""Self-tests of harness.parametrization: names like those that torch generates, and ordinary methods."""

from __future__ import annotations

import importlib
import inspect
import itertools
import pickle
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
from hypothesis import strategies as st
from torch.testing._internal import common_utils
from torch.testing._internal.common_device_type import instantiate_device_type_tests

from harness import TestCase
from harness import parametrization as harness_parametrize
from harness.parametrization import (
    decorateIf,
    instantiate_parametrized_tests,
    parametrize,
    reparametrize,
    subtest,
)
from suites.selftest.properties import given

Decorate = Callable[[Any], Any]


class OpInfo:
    formatted_name = "nn_functional_relu"


# Shared by the stacks of both sides, so that their arguments can be compared.
OBJECT, OPERATOR = object(), OpInfo()


def parity(suffix: str, params: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]] | None]:
    if params["x"] == 1:
        yield None
    else:
        yield f"{suffix}_even", {**params, "even": True}


def odd_only(suffix: str, params: dict[str, Any]) -> list[tuple[str, dict[str, Any]]] | None:
    return [(suffix, params)] if params["x"] % 2 else None


def is_one(params: dict[str, Any]) -> bool:
    return bool(params["x"] == 1)


def stacks(api: Any) -> dict[str, list[Decorate]]:
    """Stacks of decorators, the topmost first, made from one API: torch's or ours."""
    one = api.parametrize
    return {
        "ints": [one("x", range(3))],
        "negative": [one("x", [-1, 10**12])],
        "bools": [one("x", [True, False])],
        "floats": [one("x", [0.5, 1e-7, float("inf")])],
        "strings": [one("x", ["foo", "a.b", "", "with space"])],
        "objects": [one("x", [None, (1,), [2], OBJECT])],
        "mixed": [one("x", [1, None, "a", torch.float32])],
        "dtypes": [one("x", [torch.float32, torch.int64, torch.complex64])],
        "devices": [one("x", [torch.device("cpu"), torch.device("cuda", 1)])],
        "operator": [one("x", [OPERATOR])],
        "two": [one("x,y", [(1, "foo"), (2, "bar")])],
        "spaced": [one("x, y", [(1, None), [2, torch.float32]])],
        "tuples for one name": [one("x", [(1, 2), (3, 4)])],
        "name_fn": [one("x,y", [(1, "foo"), (2, "bar")], name_fn=lambda x, y: f"{x}__{y}")],
        "subtest": [one("x", [api.subtest(1, name="one"), api.subtest(2), 3])],
        "subtests of two": [one("x,y", [api.subtest((1, 2), name="double"), api.subtest((3, 4)), (5, 6)])],
        "subtest beats name_fn": [one("x", [api.subtest(1, name="one"), 2], name_fn=lambda x: f"n{x}")],
        "product": [one("x", [1, 2]), one("y", ["a", "b"])],
        "product of three": [one("x", [1]), one("y,z", [(1, 2), (3, 4)]), one("w", [True])],
        "no names": [one("", [])],
        "no names in a product": [one("", []), one("x", [1, 2])],
        "decorated": [api.decorateIf(unittest.skip("no"), is_one), one("x", [1, 2])],
        "decorated below": [one("x", [1, 2]), api.decorateIf(unittest.skip("no"), is_one)],
        "adapted": [api.reparametrize(one("x", range(3)), parity)],
        "adapted in a product": [api.reparametrize(one("x", range(3)), parity), one("y", [1])],
        "dropped": [api.reparametrize(one("x", range(3)), odd_only)],
    }  # fmt: skip


OURS = SimpleNamespace(
    parametrize=parametrize, subtest=subtest, decorateIf=decorateIf, reparametrize=reparametrize
)


def instantiated(decorators: list[Decorate], instantiate: Decorate) -> type[unittest.TestCase]:
    """A class with one test under ``decorators``; generated tests note their arguments in ``seen``."""

    def test_it(self: Any, **params: Any) -> None:
        type(self).seen.append(params)

    for decorate in reversed(decorators):
        test_it = decorate(test_it)
    case: type[unittest.TestCase] = instantiate(
        type("Case", (unittest.TestCase,), {"test_it": test_it, "seen": []})
    )
    return case


def outcomes(case: type[unittest.TestCase]) -> dict[str, Any]:
    """For each test the arguments that it ran with, or "skipped"."""
    ran: dict[str, Any] = {}
    for name in unittest.defaultTestLoader.getTestCaseNames(case):
        case.seen.clear()  # type: ignore[attr-defined]  # instantiated() puts it there
        result = unittest.TestResult()
        case(name).run(result)
        ran[name] = "skipped" if result.skipped else list(case.seen)  # type: ignore[attr-defined]  # as above
        assert not result.errors, result.errors
    return ran


class SameAsTorchTest(unittest.TestCase):
    """Generated names, arguments and decorators equal torch's, whichever side instantiates."""

    def test_stacks(self) -> None:
        for name, theirs in stacks(common_utils).items():
            expected = outcomes(instantiated(theirs, common_utils.instantiate_parametrized_tests))
            for instantiate in (instantiate_parametrized_tests, common_utils.instantiate_parametrized_tests):
                with self.subTest(name, instantiate=instantiate.__module__):
                    ours = outcomes(instantiated(stacks(OURS)[name], instantiate))
                    self.assertEqual(ours, expected)
                    self.assertTrue(ours)

    def test_decorators_of_both_stack(self) -> None:
        for above, below in ((OURS, common_utils), (common_utils, OURS)):
            mixed = [
                above.parametrize("x", [1, 2]),
                below.parametrize("y", [above.subtest(3, name="three")] if below is above else [3]),
            ]
            pure = [common_utils.parametrize("x", [1, 2]), common_utils.parametrize("y", [3])]
            expected = outcomes(instantiated(pure, common_utils.instantiate_parametrized_tests))
            for instantiate in (instantiate_parametrized_tests, common_utils.instantiate_parametrized_tests):
                with self.subTest(above=above, instantiate=instantiate.__module__):
                    self.assertEqual(outcomes(instantiated(mixed, instantiate)), expected)

    @given(
        st.lists(
            st.one_of(st.integers(), st.floats(), st.text(max_size=4), st.none(), st.booleans()),
            min_size=1, max_size=5, unique_by=lambda value: str(value).replace(".", "_"),
        )
    )  # fmt: skip
    def test_names_of_any_values(self, values: list[Any]) -> None:
        names = [
            set(
                vars(
                    instantiated([api.parametrize("x", values)], common_utils.instantiate_parametrized_tests)
                )
            )
            for api in (OURS, common_utils)
        ]
        self.assertEqual(*names)


class OnOwnCaseTest(unittest.TestCase):
    """Generated tests on this library's TestCase, which refuses only those that were never instantiated."""

    def test_instantiated(self) -> None:
        """Tests run whichever side's decorators and instantiate functions made them."""

        def for_cpu(case: type) -> Any:
            scope: dict[str, Any] = {case.__name__: case}
            instantiate_device_type_tests(case, scope, only_for=("cpu",))
            return scope[f"{case.__name__}CPU"]

        ways = (instantiate_parametrized_tests, common_utils.instantiate_parametrized_tests, for_cpu)
        for instantiate, api in itertools.product(ways, (OURS, common_utils)):
            with self.subTest(instantiate=instantiate.__module__, api=api is OURS):
                ran: list[int] = []

                @api.parametrize("x", [1, 2])  # type: ignore[untyped-decorator]  # torch is not followed
                def test_it(self: Any, x: int, ran: list[int] = ran) -> None:
                    ran.append(x)

                case = instantiate(type("Case", (TestCase,), {"test_it": test_it, "__module__": __name__}))
                result = unittest.TestResult()
                unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
                self.assertEqual((result.errors, result.failures, ran), ([], [], [1, 2]))


class MethodTest(unittest.TestCase):
    """A generated test is an ordinary method."""

    @instantiate_parametrized_tests
    class Generated(unittest.TestCase):
        ran: ClassVar[list[Any]] = []

        @parametrize("x", [1, subtest(2, name="two", decorators=[unittest.expectedFailure]), 3])
        def test_doc(self, x: int) -> None:
            """What it is for."""
            self.ran.append(x)
            self.assertNotEqual(x, 2)

        test_doc.demand = ("cpu", 2)  # type: ignore[attr-defined]  # as decorators that require something leave it

    def test_identity(self) -> None:
        method = self.Generated.test_doc_x_1  # type: ignore[attr-defined]  # generated
        self.assertEqual(method.__name__, "test_doc_x_1")
        self.assertEqual(method.__qualname__, "MethodTest.Generated.test_doc_x_1")
        self.assertEqual(method.__module__, __name__)
        self.assertEqual(method.__doc__, "What it is for.")
        self.assertEqual(method.demand, ("cpu", 2))
        self.assertEqual(inspect.unwrap(method).__name__, "test_doc")
        self.assertIs(pickle.loads(pickle.dumps(method)), method)
        self.assertFalse(hasattr(method, harness_parametrize.ATTRIBUTE))
        self.assertFalse(hasattr(self.Generated, "test_doc"))

    def test_a_coroutine_function_stays_one(self) -> None:
        ran: list[int] = []

        @instantiate_parametrized_tests
        class Awaited(unittest.IsolatedAsyncioTestCase):
            @parametrize("x", [1, subtest(2, decorators=[unittest.skip("later")])])
            async def test_it(self, x: int) -> None:
                ran.append(x)

        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(Awaited).run(result)
        self.assertEqual((result.errors, len(result.skipped), ran), ([], 1, [1]))

    def test_decorators_of_one_value_leave_the_others_alone(self) -> None:
        result = unittest.TestResult()
        self.Generated.ran.clear()
        unittest.defaultTestLoader.loadTestsFromTestCase(self.Generated).run(result)
        self.assertEqual(sorted(self.Generated.ran), [1, 2, 3])
        self.assertTrue(result.wasSuccessful())
        self.assertEqual([test.id().split(".")[-1] for test, _ in result.expectedFailures], ["test_doc_two"])

    def test_another_process_finds_it_by_name(self) -> None:
        source = (
            "import unittest\n"
            "from harness.parametrization import *\n"
            "@instantiate_parametrized_tests\n"
            "class C(unittest.TestCase):\n"
            "    @parametrize('x', iter([1, 2]))\n"
            "    def test_a(self, x): pass\n"
        )
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "generated_module.py").write_text(source)
            sys.path.insert(0, directory)
            self.addCleanup(sys.path.remove, directory)
            self.addCleanup(sys.modules.pop, "generated_module", None)
            first = importlib.import_module("generated_module").C.test_a_x_2
            data = pickle.dumps(first)
            del sys.modules["generated_module"]
            again = pickle.loads(data)
        self.assertIsNot(again, first)
        self.assertEqual(again.__qualname__, "C.test_a_x_2")


class InheritanceTest(unittest.TestCase):
    def test_a_mixin_serves_several_classes(self) -> None:
        class Mixin:
            @parametrize("x", [1, 2])
            def test_shared(self, x: int) -> None:
                pass

        cases = [instantiate_parametrized_tests(type(n, (Mixin, unittest.TestCase), {})) for n in ("A", "B")]
        for case in cases:
            self.assertEqual(
                unittest.defaultTestLoader.getTestCaseNames(case), ["test_shared_x_1", "test_shared_x_2"]
            )
        self.assertTrue(callable(Mixin.test_shared))

    def test_a_subclass_adds_its_own(self) -> None:
        class Base(unittest.TestCase):
            @parametrize("x", [1])
            def test_a(self, x: int) -> None:
                pass

        class Derived(instantiate_parametrized_tests(Base)):  # type: ignore[misc]  # a class is what it returns
            @parametrize("y", [2])
            def test_b(self, y: int) -> None:
                pass

        instantiate_parametrized_tests(Derived)
        names = unittest.defaultTestLoader.getTestCaseNames(Derived)
        self.assertEqual(names, ["test_a_x_1", "test_b_y_2"])

    def test_nothing_to_do(self) -> None:
        class Plain(unittest.TestCase):
            def test_a(self) -> None:
                pass

        self.assertIs(instantiate_parametrized_tests(Plain), Plain)
        self.assertEqual(unittest.defaultTestLoader.getTestCaseNames(Plain), ["test_a"])


class MistakeTest(unittest.TestCase):
    """A wrong use is a ValueError that names it, as early as it can be known."""

    def test_at_the_decorator(self) -> None:
        used_up = iter([1])
        list(used_up)
        cases: list[tuple[str, Any, str]] = [
            ("x", [], "there are no values; was an iterator passed that is used up"),
            ("x", used_up, "there are no values"),
            ("x,y", [(1, 2), (3,)], r"'x, y'\): 2 names, but 1 values in \(3,\)"),
            ("x,y", [subtest((1, 2, 3))], "2 names, but 3 values"),
            ("x,x", [(1, 2)], "a name comes twice"),
            ("x y", [1], "'x y' is no parameter name"),
        ]
        for names, values, message in cases:
            with self.subTest(names=names), self.assertRaisesRegex(ValueError, message):
                parametrize(names, values)

    def test_two_tests_of_one_name(self) -> None:
        with self.assertRaisesRegex(ValueError, "Case has two tests test_it_x_1: name the values apart"):
            instantiated([parametrize("x", [1, "1"])], instantiate_parametrized_tests)

    def test_a_name_that_is_taken(self) -> None:
        class Case(unittest.TestCase):
            def test_a_x_1(self) -> None:
                pass

            @parametrize("x", [1])
            def test_a(self, x: int) -> None:
                pass

        with self.assertRaisesRegex(ValueError, "two tests test_a_x_1"):
            instantiate_parametrized_tests(Case)

    def test_one_parameter_twice(self) -> None:
        with self.assertRaisesRegex(ValueError, "test_it: x is parametrized twice"):
            instantiated([parametrize("x", [1]), parametrize("x", [2])], instantiate_parametrized_tests)


if __name__ == "__main__":
    unittest.main()
