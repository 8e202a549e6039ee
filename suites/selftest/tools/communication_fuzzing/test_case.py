"""Tests that cases are a function of their seed."""

from __future__ import annotations

import unittest

from tools.communication_fuzzing.case import BATCH, WORLD_SIZES, drawn


class DrawnTest(unittest.TestCase):
    """Cases that are drawn from seeds."""

    def test_the_same_each_time(self) -> None:
        """Cases of a seed are the same each time, whether all are mutated or none; all world sizes come."""
        sizes = set()
        for seed in range(len(WORLD_SIZES)):
            cases = {case.name: case for case in drawn(seed, mutate=True)}
            self.assertEqual(cases, {case.name: case for case in drawn(seed, mutate=True)})
            plain = {case.name: case for case in drawn(seed, mutate=False)}
            self.assertEqual(len(plain), BATCH)
            for name, case in cases.items():
                self.assertEqual((case.program, plain[name].mutation), (plain[name].program, None))
            sizes |= {case.program.world_size for case in plain.values()}
        self.assertEqual(sizes, {*WORLD_SIZES})


if __name__ == "__main__":
    unittest.main()
