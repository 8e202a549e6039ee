"""Tests the expressions of ``-E``: what they take, which modules they rule out, and where errors point."""

from __future__ import annotations

import unittest

from hypothesis import strategies as st

from harness.errors import UsageError
from harness.runner.scheduling.unit import BROKEN, SKIPPED, Demand, of_id, of_module
from harness.runner.selection.expression import any_of, parse
from suites.selftest.properties import given

STORES, EXPORT = "suites.c10d.test_stores", "suites.aot.test_export"
UNITS = {
    "add": of_id(f"{STORES}.FileStoreTest.test_add", STORES),
    "sum": of_id(f"{STORES}.Sums.test_sum", STORES, demand=Demand(ranks=4, cpu_slots=2)),
    "big": of_id(
        f"{STORES}.Sums.test_big[(1, 2)]", STORES, demand=Demand(ranks=8, exclusive=True), slow=True
    ),
    "gpu": of_id(f"{EXPORT}.OnGpu.test_gpu", EXPORT, demand=Demand(accelerators=2, memory_mb=512)),
}
FAILED = frozenset({UNITS["sum"].id})


def taken(text: str) -> list[str]:
    """The names of the units that an expression takes."""
    expression = parse(text)
    return [name for name, unit in UNITS.items() if expression.takes(unit, FAILED)]


class TakenTest(unittest.TestCase):
    """Which tests expressions take."""

    def test_conditions(self) -> None:
        """Each condition alone."""
        for text, names in (
            ("all", ["add", "sum", "big", "gpu"]),
            ("suite(c10d)", ["add", "sum", "big"]),
            ("suite(suites.aot)", ["gpu"]),
            ("module(*.test_stores)", ["add", "sum", "big"]),
            ("module(c10d.test_stores)", ["add", "sum", "big"]),
            ("class(Sums)", ["sum", "big"]),
            ("class(*s)", ["sum", "big"]),
            ("test(test_add)", ["add"]),
            ("test(big[(1, 2)])", ["big"]),
            ("ranks(4)", ["sum"]),
            ("ranks(>=4)", ["sum", "big"]),
            ("ranks( < 4 )", ["add", "gpu"]),
            ("ranks(!=1)", ["sum", "big"]),
            ("slots(>1)", ["sum"]),
            ("accelerators(>=1)", ["gpu"]),
            ("memory(<=511)", ["add", "sum", "big"]),
            ("slow", ["big"]),
            ("exclusive", ["big"]),
            ("failed(last)", ["sum"]),
        ):
            with self.subTest(text):
                self.assertEqual(taken(text), names)

    def test_operators(self) -> None:
        """``!`` binds before ``&``, and that before ``|``; parentheses come first; space does not count."""
        for text, names in (
            ("!slow", ["add", "sum", "gpu"]),
            ("!!slow", ["big"]),
            ("suite(c10d) & ranks(>=4) & !slow & failed(last)", ["sum"]),
            ("suite(aot)|ranks(8)&slow", ["big", "gpu"]),
            ("(suite(aot) | ranks(8)) & slow", ["big"]),
            ("!(suite(aot) | slow)", ["add", "sum"]),
            ("! suite(c10d)&all", ["gpu"]),
        ):
            with self.subTest(text):
                self.assertEqual(taken(text), names)

    def test_several(self) -> None:
        """Of several expressions any may take a test; without one there is no limit."""
        both = any_of(["slow", "suite(aot)"])
        assert both is not None
        self.assertEqual([n for n, unit in UNITS.items() if both.takes(unit, ())], ["big", "gpu"])
        self.assertIsNone(any_of([]))

    def test_of_the_last_run(self) -> None:
        """Only what asks for the last run needs it."""
        asked = [parse(text).reads_last for text in ("slow", "failed(last)", "!(slow | failed(last))")]
        self.assertEqual(asked, [False, True, True])


class ModulesTest(unittest.TestCase):
    """Which modules need not be imported."""

    def test_table(self) -> None:
        """A module is left out where none of its tests can be taken, whatever they are."""
        for text, stores, export in (
            ("suite(c10d)", True, False),
            ("!suite(c10d)", False, True),
            ("suite(c10d) & slow", True, False),
            ("suite(c10d) | slow", True, True),
            ("!(suite(c10d) & slow)", True, True),
            ("!(suite(c10d) | slow)", False, True),
            ("ranks(>4)", True, True),
            ("!all", False, False),
        ):
            with self.subTest(text):
                may = parse(text).may_take
                self.assertEqual((may(STORES), may(EXPORT)), (stores, export))

    def test_stand_ins(self) -> None:
        """What stands in for a module that does not import, or skips itself, is taken where a test may be."""
        for why in (BROKEN, SKIPPED):
            unit = of_module(STORES, why)
            with self.subTest(why):
                self.assertTrue(parse("suite(c10d) & ranks(64)").takes(unit, ()))
                self.assertFalse(parse("suite(aot)").takes(unit, ()))

    @given(st.recursive(
        st.sampled_from(["suite(c10d)", "suite(aot)", "slow", "ranks(>=4)", "all", "class(Sums)"]),
        lambda inner: st.one_of(
            inner.map(lambda one: f"!({one})"),
            st.tuples(inner, st.sampled_from("&|"), inner).map("({0[0]}) {0[1]} ({0[2]})".format),
        ),
    ))  # fmt: skip
    def test_no_test_is_lost(self, text: str) -> None:
        """A module that has a test which an expression takes is never left out."""
        expression = parse(text)
        for unit in UNITS.values():
            self.assertLessEqual(expression.takes(unit, ()), expression.may_take(unit.module))


class ErrorTest(unittest.TestCase):
    """What is no expression, and where the error points."""

    def test_table(self) -> None:
        """Each error has the column, what is wrong, and a mark below that column."""
        for text, column, says in (
            ("", 1, "expected a condition at the end: one of suite, "),
            ("suite(c10d) &", 14, "expected a condition at the end"),
            ("suite(c10d) && slow", 14, "expected a condition before '&'"),
            ("suite(c10d) slow", 13, "expected & or | before 's'"),
            ("suit(c10d)", 1, "unknown condition suit; did you mean suite?"),
            ("slow & fast", 8, "unknown condition fast"),
            ("suite", 1, "suite needs an argument: suite(...)"),
            ("slow | suite( )", 13, "suite needs an argument: suite(...)"),
            ("slow | suite(c10d", 13, "this ( is not closed"),
            ("!(slow", 2, "this ( is not closed"),
            ("slow)", 5, "expected & or | before ')'"),
            ("ranks(many)", 7, "'many' is no comparison: write 4, >=4, <4 or !=4"),
            ("ranks(=>4)", 7, "'=>4' is no comparison"),
            ("failed(first)", 8, "'first' is no run: write failed(last)"),
            ("slow(1)", 5, "expected & or | before '('"),
        ):
            with self.subTest(text):
                with self.assertRaises(UsageError) as caught:
                    parse(text)
                line, shown, mark = str(caught.exception).split("\n")
                self.assertTrue(line.startswith(f"-E: column {column}: {says}"), line)
                self.assertEqual(shown, f"  {text}")
                self.assertEqual(mark, f"  {' ' * (column - 1)}^")


if __name__ == "__main__":
    unittest.main()
