"""Tests what the model of a store says of each operation."""

from __future__ import annotations

import unittest

from harness.fuzzing.stores.model import EMPTY, TIMEOUT, Cell, call, call_of_all

ONE = Cell("1")
QUEUE = Cell(None, ("x", "y"))


class ModelTest(unittest.TestCase):
    def test_calls_of_one_key(self) -> None:
        table = [
            (Cell(), "get", (), Cell(), TIMEOUT),
            (ONE, "get", (), ONE, "1"),
            (QUEUE, "get", (), QUEUE, TIMEOUT),
            (ONE, "set", ("",), Cell(""), None),
            (Cell(), "add", (3,), Cell("3"), 3),
            (ONE, "add", (-3,), Cell("-2"), -2),
            (Cell(), "append", ("x",), Cell("x"), None),
            (ONE, "append", ("x",), Cell("1x"), None),
            (Cell(), "compare_set", ("", "x"), Cell("x"), "x"),
            (Cell(), "compare_set", ("1", "x"), Cell(), "1"),
            (ONE, "compare_set", ("1", "x"), Cell("x"), "x"),
            (ONE, "compare_set", ("", "x"), ONE, "1"),
            (Cell(), "delete_key", (), Cell(), False),
            (ONE, "delete_key", (), Cell(), True),
            (ONE, "remove", (), Cell(), None),
            (Cell(""), "check", (), Cell(""), True),
            (QUEUE, "check", (), QUEUE, True),
            (Cell(), "wait", (), Cell(), TIMEOUT),
            (ONE, "wait", (), ONE, None),
            (QUEUE, "queue_pop", (), Cell(None, ("y",)), "x"),
            (ONE, "queue_pop", (), ONE, EMPTY),
            (ONE, "queue_push", ("z",), Cell("1", ("z",)), None),
            (QUEUE, "queue_len", (), QUEUE, 2),
        ]
        for cell, method, arguments, after, result in table:
            with self.subTest(cell=cell, method=method, arguments=arguments):
                self.assertEqual(call(cell, method, arguments), (after, result))

    def test_calls_of_several_keys(self) -> None:
        cells = {"a": ONE, "b": Cell("x"), "q": QUEUE, "gone": Cell()}
        table = [
            ("num_keys", (), 2),
            ("list_keys", (), ["a", "b"]),
            ("multi_get", (("b", "a"),), ["x", "1"]),
            ("multi_get", (("a", "gone"),), TIMEOUT),
            ("multi_get", ((),), []),
            ("check", (("a", "q"),), True),
            ("check", (("a", "never"),), False),
            ("wait", (("a", "b"),), None),
            ("wait", (("a", "gone"),), TIMEOUT),
            ("get", ("a",), "1"),
        ]
        for method, arguments, result in table:
            with self.subTest(method=method, arguments=arguments):
                after, given = call_of_all(cells, method, arguments)
                self.assertEqual(given, result)
                self.assertEqual([each for each in after.items() if each[1] != Cell()], [*cells.items()][:3])

    def test_multi_set(self) -> None:
        after, result = call_of_all({"a": ONE}, "multi_set", (("a", "b", "b"), ("2", "3", "4")))
        self.assertEqual((after, result), ({"a": Cell("2"), "b": Cell("4")}, None))


if __name__ == "__main__":
    unittest.main()
