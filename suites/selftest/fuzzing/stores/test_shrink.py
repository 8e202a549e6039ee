"""Tests by what changes a program of stores is made simpler."""

from __future__ import annotations

import unittest
from collections.abc import Callable

from harness.fuzzing.stores.draw import drawn
from harness.fuzzing.stores.program import Call, StoreProgram
from harness.fuzzing.stores.shrink import simpler


def smallest(program: StoreProgram, fails: Callable[[StoreProgram], bool]) -> StoreProgram:
    """The program after as many changes as there are that keep it failing."""
    while True:
        found = next((each for each in simpler(program) if fails(each)), None)
        if found is None:
            return program
        program = found


class ShrinkTest(unittest.TestCase):
    def test_ends_with_what_fails(self) -> None:
        """Of any program with an ``add`` one call remains, of the plainest kind."""
        for seed in range(150):
            program = drawn(seed)
            if any(each.method == "add" for each in program.calls):
                found = smallest(program, lambda p: any(each.method == "add" for each in p.calls))
                with self.subTest(seed=seed):
                    self.assertEqual(len(found.calls), 1)
                    self.assertIn(found.way, ("turns", "threads"))
                    self.assertFalse(found.kind.startswith("prefix"))
                    self.assertEqual(found.clients, 1 if found.way == "turns" else 2)
                    self.assertIn(found.calls[0].arguments[1], (0, 1))

    def test_two_clients_stay_beside_each_other(self) -> None:
        program = StoreProgram("tcp", "ranks", 2, (Call(0, "set", ("a", "1")), Call(1, "get", ("a",))))
        self.assertEqual({each.clients for each in simpler(program)}, {2})


if __name__ == "__main__":
    unittest.main()
