"""Self-tests of harness.comparison: which values other than tensors are equal, and what a difference says."""

from __future__ import annotations

import collections
import copy
import dataclasses
import decimal
import enum
import math
import subprocess
import sys
import types
import unittest
import unittest.mock
from typing import Any, NamedTuple

from hypothesis import strategies as st

from harness.comparison import Comparison, Difference, Rules
from suites.selftest.properties import given

NAN, INF = math.nan, math.inf


class Pair(NamedTuple):
    left: Any
    right: Any


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Point:
    x: Any
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass
class SamePoint(Point):
    """Another type with the same fields."""


@dataclasses.dataclass
class Parity:
    """A dataclass with an ``__eq__`` of its own."""

    x: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parity) and self.x % 2 == other.x % 2


class Broken:
    def __eq__(self, other: object) -> bool:
        raise LookupError("no answer")

    __hash__ = None  # type: ignore[assignment]  # what Python does for a class with __eq__ alone


def no_arrays(whole: Comparison, x: Any, y: Any) -> Difference | None:
    raise TypeError(f"{x!r} and {y!r} were taken for arrays")


def difference(x: Any, y: Any, **rules: Any) -> Difference | None:
    return Comparison(Rules(**rules), no_arrays, unittest.TestCase().assertEqual).difference(x, y)


EQUAL: list[tuple[Any, Any, dict[str, Any]]] = [
    (1, 1.0, {}),
    (1, True, {}),
    (True, 1.0, {}),
    (1, 1 + 0j, {}),
    (Level.LOW, 1, {}),
    (1.0, 1.000001, {}),
    (1 + 1j, 1.000001 + 1j, {}),
    (1e10, 1e10 + 1, {}),
    (10**30, 10**30, {}),
    (3, 4, {"atol": 1, "rtol": 0}),
    (100, 90, {"atol": 0, "rtol": 0.12}),
    (0.0, 0.09, {"least_atol": 0.1}),
    (100.0, 109.0, {"least_rtol": 0.1}),
    (NAN, NAN, {}),
    (complex(NAN, 0), NAN, {}),
    (INF, INF, {}),
    (-INF, -INF, {"equal_nan": False}),
    (None, None, {}),
    ("a", "a", {}),
    (b"a", bytearray(b"a"), {}),
    ([], (), {}),
    ([1, 2], (1, 2), {}),
    ([1, 2], range(1, 3), {}),
    (collections.deque([1, 2]), [1, 2], {}),
    (Pair(1, 2), (1, 2), {}),
    ({"a": 1, "b": 2}, collections.OrderedDict(b=2, a=1), {}),
    (types.MappingProxyType({"a": 1}), {"a": 1}, {}),
    ({1: "x"}, {1.0: "x"}, {}),
    ({1, 2}, frozenset({2, 1}), {}),
    (Point([1, 2.0]), Point((1, 2.000001)), {}),
    (Point(1, "here"), Point(1, "there"), {}),
    (Parity(1), Parity(3), {}),
    (int, int, {}),
    (decimal.Decimal("1.50"), decimal.Decimal("1.5"), {}),
    (unittest.mock.ANY, 1, {}),
]

DIFFERENT: list[tuple[Any, Any, dict[str, Any]]] = [
    (5, True, {}),
    (0, True, {}),
    ("1", 1, {}),
    ("True", True, {}),
    (b"a", "a", {}),
    (b"a", [97], {}),
    ("ab", ["a", "b"], {}),
    ("", [], {}),
    (None, 0, {}),
    (None, False, {}),
    (None, [], {}),
    (1, 2, {}),
    (10**30, 10**30 + 1, {}),
    (10**400, 1.0, {}),
    (10**400, 10**401, {}),
    (1.0, 1.0001, {}),
    (1.0, 1.000001, {"atol": 0, "rtol": 0}),
    (100, 90, {"atol": 0, "rtol": 0.11}),
    (1e10, INF, {}),
    (INF, 1e10, {}),
    (INF, -INF, {}),
    (INF, 1.0, {"atol": INF, "rtol": 0}),
    (NAN, NAN, {"equal_nan": False}),
    (NAN, 1.0, {}),
    ([1], [1, 2], {}),
    ([1, [2, 3]], [1, [2, 4]], {}),
    ([1], 1, {}),
    ([1], {0: 1}, {}),
    ({"a": 1}, {"b": 1}, {}),
    ({"a": 1}, {"a": 1, "b": None}, {}),
    ({1}, {2}, {}),
    ({1}, [1], {}),
    (Point(1), Point(2), {}),
    (Point(1), SamePoint(1), {}),
    (Parity(1), Parity(2), {}),
    (Point, Point(1), {}),
    (int, bool, {}),
    (object(), object(), {}),
]


class VerdictTest(unittest.TestCase):
    """The tables of pairs, in both orders: only relative tolerances make equality asymmetric."""

    def test_equal_pairs(self) -> None:
        for x, y, rules in EQUAL:
            with self.subTest(x=x, y=y, **rules):
                self.assertIsNone(difference(x, y, **rules))

    def test_different_pairs(self) -> None:
        for x, y, rules in DIFFERENT:
            with self.subTest(x=x, y=y, **rules):
                self.assertIsInstance(difference(x, y, **rules), Difference)

    def test_symmetric(self) -> None:
        for x, y, rules in EQUAL + DIFFERENT:
            if not rules.get("rtol"):
                with self.subTest(x=x, y=y, **rules):
                    self.assertEqual(
                        difference(x, y, **rules) is None,
                        difference(y, x, **rules) is None,
                    )

    def test_relative_tolerance_is_of_the_expected_value(self) -> None:
        self.assertIsNone(difference(90, 100, atol=0, rtol=0.1))
        self.assertIsNotNone(difference(100, 90, atol=0, rtol=0.1))

    def test_an_error_of_the_values_is_no_difference(self) -> None:
        with self.assertRaises(LookupError):
            difference(Broken(), 1)
        with self.assertRaises(LookupError):
            difference([Broken()], [1])


class RulesTest(unittest.TestCase):
    def test_one_tolerance_alone(self) -> None:
        with self.assertRaisesRegex(ValueError, "^atol was given without rtol: give both"):
            Rules(atol=0.1)
        with self.assertRaisesRegex(ValueError, "^rtol was given without atol: give both"):
            Rules(rtol=0)

    def test_impossible_tolerances(self) -> None:
        for value in (-1e-9, NAN):
            with self.subTest(value=value), self.assertRaisesRegex(ValueError, "a number of 0 or more"):
                Rules(atol=value, rtol=0)
            with self.subTest(value=value), self.assertRaisesRegex(ValueError, "^rtol="):
                Rules(atol=0, rtol=value)


class MessageTest(unittest.TestCase):
    def found(self, x: Any, y: Any, **rules: Any) -> Difference:
        found = difference(x, y, **rules)
        assert found is not None, (x, y)
        return found

    def test_path(self) -> None:
        cases: list[tuple[Any, Any, str]] = [
            (1, 2, ""),
            ([1, 2], [1, 3], "[1]"),
            ({"a": [0, {3: 1}]}, {"a": [0, {3: 2}]}, "['a'][1][3]"),
            (Pair(1, [2]), Pair(1, [3]), ".right[0]"),
            (Pair(1, 2), (1, 3), "[1]"),
            (Point({"x": 1}), Point({"x": 2}), ".x['x']"),
            ({(1, "k"): "a"}, {(1, "k"): "b"}, "[(1, 'k')]"),
            ([[1], [1, 2]], [[1], [1]], "[1]"),
            ([{"a": 1}], [{"b": 1}], "[0]"),
        ]
        for x, y, path in cases:
            with self.subTest(x=x, y=y):
                found = self.found(x, y)
                self.assertEqual(found.path, path)
                self.assertEqual(f"item {path}" in str(found), bool(path))

    def test_the_first_difference_is_the_one_reported(self) -> None:
        self.assertEqual(self.found([1, 2, 3], [1, 0, 0]).path, "[1]")

    def test_numbers_say_how_far_apart(self) -> None:
        text = str(self.found(1.5, 1.0))
        self.assertTrue(text.startswith("Scalars are not close!"), text)
        for part in ("Expected 1.0 but got 1.5", "0.5 apart", "atol 1e-05", "rtol 1.3e-06"):
            self.assertIn(part, text)

    def test_exact_numbers_say_nothing_of_tolerances(self) -> None:
        self.assertEqual(str(self.found(3, 4)), "Scalars are not equal!\n\nExpected 4 but got 3.")

    def test_lengths_name_the_surplus(self) -> None:
        self.assertIn("2 != 1. Only the first has [1]: 'b'", str(self.found(["a", "b"], ["a"])))
        self.assertIn("1 != 2. Only the second has [1]: 'b'", str(self.found(["a"], ["a", "b"])))

    def test_a_long_surplus_is_not_printed(self) -> None:
        text = str(self.found([], ["b" * 100]))
        self.assertTrue(text.endswith("0 != 1."), text)

    def test_keys_are_named(self) -> None:
        text = str(self.found({"a": 1, "b": 2}, {"b": 2, "c": 3}))
        self.assertIn("missing are ['c'], unexpected are ['a']", text)

    def test_unittest_words_for_the_rest(self) -> None:
        self.assertIn("- one\n", str(self.found("one\ntwo\n", "two\n")))
        self.assertIn("Items in the first set but not the second:", str(self.found({1}, {2})))


leaves = st.one_of(
    st.integers(),
    st.floats(allow_nan=True),
    st.text(max_size=3),
    st.booleans(),
    st.none(),
    st.binary(max_size=3),
)
containers = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.integers(), st.text(max_size=3)), inner, max_size=4),
        st.builds(Point, inner),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=12,
)


def leaf_paths(value: Any, path: str = "", route: tuple[Any, ...] = ()) -> list[tuple[str, tuple[Any, ...]]]:
    """Every leaf of ``value``: its path as a difference names it, and the keys that lead to it."""
    steps: list[tuple[str, Any, Any]]
    if isinstance(value, Pair):
        steps = [(f".{name}", index, value[index]) for index, name in enumerate(Pair._fields)]
    elif isinstance(value, (list, tuple)):
        steps = [(f"[{index}]", index, item) for index, item in enumerate(value)]
    elif isinstance(value, dict):
        steps = [(f"[{key!r}]", key, item) for key, item in value.items()]
    elif isinstance(value, Point):
        steps = [(".x", "x", value.x)]
    else:
        return [(path, route)]
    return [leaf for text, key, item in steps for leaf in leaf_paths(item, path + text, (*route, key))]


def replaced(value: Any, route: tuple[Any, ...], new: object) -> Any:
    """A copy of ``value`` with ``new`` at the end of ``route``."""
    if not route:
        return new
    key, *rest = route
    if isinstance(value, Point):
        return Point(replaced(value.x, tuple(rest), new))
    if isinstance(value, dict):
        return {**value, key: replaced(value[key], tuple(rest), new)}
    items = [replaced(item, tuple(rest), new) if index == key else item for index, item in enumerate(value)]
    return Pair(*items) if isinstance(value, Pair) else type(value)(items)


class ContainerPropertyTest(unittest.TestCase):
    @given(containers)
    def test_a_copy_is_equal(self, value: Any) -> None:
        self.assertIsNone(difference(value, copy.deepcopy(value)))

    @given(containers, st.data())
    def test_one_changed_leaf_is_found_and_named(self, value: Any, data: st.DataObject) -> None:
        leaves = leaf_paths(value)
        if not leaves:
            return
        path, route = data.draw(st.sampled_from(leaves))
        found = difference(replaced(value, route, object()), value)
        assert found is not None
        self.assertEqual(found.path, path)


class ImportTest(unittest.TestCase):
    def test_no_torch_is_imported_to_compare_plain_values(self) -> None:
        code = (
            "import sys; from harness.testcase import TestCase; t = TestCase(); "
            "t.assertEqual([1, 'a', {'b': 2.0}], (1, 'a', {'b': 2})); t.assertNotEqual({1}, [1]); "
            "print('torch' in sys.modules or 'numpy' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "False\n")


if __name__ == "__main__":
    unittest.main()
