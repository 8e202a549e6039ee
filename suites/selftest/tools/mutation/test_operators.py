"""Tests what each rule makes of a piece of source."""

from __future__ import annotations

import textwrap
import unittest

from tools.mutation.operators import OPERATORS
from tools.mutation.sites import describe, sites

# A rule, the body of a function, and what stands in the place of each part that the rule changes.
TABLE: dict[str, list[tuple[str, list[str]]]] = {
    "negated_condition": [
        ("if a: f()", ["not a"]),
        ("while a: f()", ["not a"]),
        ("b = 1 if a else 2", ["not a"]),
        ("b = [c for c in a if c]", ["not c"]),
        ("if a < 1: f()", []),
    ],
    "dropped_condition": [("if a: f()", ["True", "False"]), ("while a: f()", ["False"])],
    "comparison": [
        ("return a < b", ["a <= b"]),
        ("return a <= b", ["a < b"]),
        ("return a == b", ["a != b"]),
        ("return a is None", ["a is not None"]),
        ("return a not in b", ["a in b"]),
        ("return a < b < c", ["a <= b < c", "a < b <= c"]),
    ],
    "arithmetic": [
        ("return a + b", ["a - b"]),
        ("return a * b", ["a // b"]),
        ("return a // b", ["a * b"]),
        ("return a & b", ["a | b"]),
        ("return 'x' + a", []),
        ("return a @ b", []),
    ],
    "connective": [
        ("return a and b", ["a or b", "b", "a"]),
        ("return a or b or c", ["a and b and c", "b or c", "a or c", "a or b"]),
    ],
    "sign": [("return not a", ["a"]), ("return -a", ["a"]), ("return ~a", [])],
    "constant": [
        ("return 0", ["1"]),
        ("return 2", ["3", "1"]),
        ("return True", ["False"]),
        ("return 0.5", ["1.0"]),
        ("return a['b']", ["'b_'"]),
        ("return a == 'b'", ["'b_'"]),
        ("return f('words')", []),
        ("return None", []),
    ],
    "swapped_arguments": [
        ("f(a, b, c)", ["f(b, a, c)"]),
        ("f(a, a)", []),
        ("f(*a, b)", []),
        ("isinstance(a, b)", []),
    ],
    "dropped_argument": [("f(a, b=c, d=e)", ["f(b=c, d=e)", "f(a, d=e)", "f(a, b=c)"]), ("f()", [])],
    "dropped_statement": [
        ("f()", ["pass"]),
        ("a.b = 1", ["pass"]),
        ("a[b] = 1", ["pass"]),
        ("a += 1", ["pass"]),
        ("raise ValueError(a)", ["pass"]),
        ("del a", ["pass"]),
        ("a = 1", []),
    ],
    "dropped_addition": [("a += 1", ["a = 1"])],
    "early_return": [("return a", ["return None"]), ("return None", []), ("return", []), ("raise f()", [])],
    "dropped_context": [("with a: f()", ["no context: f()"]), ("with a as b: f()", [])],
    "first_turn_only": [("for a in b: f()", ["ends after its first turn"]), ("for a in b: return a", [])],
    "backwards": [
        ("for a in b: f()", ["reversed(list(b))"]),
        ("return [a for a in b]", ["reversed(list(b))"]),
    ],
    "other_attribute": [("f(a.b, a.c)", ["a.c", "a.b"]), ("f(a.b)", []), ("a.b(a.c)", [])],
}
# What no rule touches.
NOTHING = [
    '"""Only words."""',
    "assert a < b, f(a)",
    "log.warning('%d', a + 1)",
    "warnings.warn('words')",
    "return f'{a + 1}'",
    "raise ValueError(a + 1) from b",
]


def changed(operator: str | None, body: str) -> list[str]:
    """What the mutants of a function with this body have in the place of what they change."""
    source = f"def function(self, a=1 + 1):\n{textwrap.indent(body, '    ')}\n"
    return [
        describe(source, site.name).after
        for site in sites("m.py", source)
        if operator in (None, site.operator) and describe(source, site.name).after != "returns None at once"
    ]


class OperatorsTest(unittest.TestCase):
    """The rules, by the table."""

    def test_table(self) -> None:
        for operator, rows in TABLE.items():
            for body, wanted in rows:
                with self.subTest(operator, body=body):
                    self.assertEqual(changed(operator, body), wanted)

    def test_every_rule_is_in_the_table(self) -> None:
        self.assertEqual(list(TABLE), list(OPERATORS))

    def test_a_function_that_returns_at_once(self) -> None:
        source = "def function():\n    'Words.'\n    f()\n    return 1\n"
        first = next(sites("m.py", source))
        self.assertEqual((first.operator, first.line), ("early_return", 3))
        self.assertEqual(describe(source, first.name).after, "returns None at once")

    def test_messages_and_assertions_are_left_alone(self) -> None:
        for body in NOTHING:
            with self.subTest(body):
                self.assertLessEqual(set(changed(None, body)), {"return None", "pass"})
