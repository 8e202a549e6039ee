"""Tests which programs of stores are drawn."""

from __future__ import annotations

import unittest

from harness.fuzzing.stores.draw import drawn
from harness.fuzzing.stores.model import TIMEOUT, Cell, call_of_all
from harness.fuzzing.stores.program import EVENTS, KINDS, WAYS

PROGRAMS = [drawn(seed) for seed in range(1500)]


class DrawTest(unittest.TestCase):
    def test_everything_is_drawn(self) -> None:
        self.assertEqual({each.kind for each in PROGRAMS}, set(KINDS))
        self.assertEqual({each.way for each in PROGRAMS}, set(WAYS))
        methods = {call.method for each in PROGRAMS for call in each.calls}
        expected = [
            "set",
            "get",
            "add",
            "append",
            "compare_set",
            "delete_key",
            "remove",
            "check",
            "wait",
            "multi_get",
        ]
        expected += ["multi_set", "num_keys", "list_keys", "queue_push", "queue_pop", "queue_len", *EVENTS]
        self.assertEqual(methods, set(expected))

    def test_only_where_it_can_be(self) -> None:
        """Queues where a store has them, servers where there is one; single keys where clients overlap."""
        for each in PROGRAMS:
            methods = {call.method for call in each.calls}
            with self.subTest(program=each):
                if "file" in each.kind or each.kind == "legacy":
                    self.assertFalse([method for method in methods if method.startswith("queue")])
                if each.kind not in ("tcp", "legacy"):
                    self.assertNotIn("restart", methods)
                if each.way != "turns":
                    self.assertFalse(methods & {"num_keys", "list_keys", *EVENTS})

    def test_files_seldom_wait_in_vain(self) -> None:
        waits = calls = 0
        for each in PROGRAMS:
            if "file" in each.kind and each.way == "turns":
                cells: dict[str, Cell] = {}
                for one in each.calls:
                    if one.method not in EVENTS:
                        cells, result = call_of_all(cells, one.method, one.arguments)
                        waits += result == TIMEOUT
                        calls += 1
        self.assertGreater(waits, 0)
        self.assertLess(waits, calls / 50)


if __name__ == "__main__":
    unittest.main()
