"""``same_draws``: values that are a function of the seed."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest

from hypothesis import strategies as st

from harness import same_draws

PAIRS = st.tuples(st.integers(), st.text(max_size=5))
PROGRAM = "from suites.selftest.cases.test_draws import *; print(same_draws(PAIRS, 10))"


class SameDrawsTest(unittest.TestCase):
    """Ranks draw alone, and have to draw alike."""

    def test_of_the_seed(self) -> None:
        """The same again; others with another seed."""
        self.assertEqual(same_draws(PAIRS, 10), same_draws(PAIRS, 10))
        self.assertEqual(len(same_draws(PAIRS, 10)), 10)
        self.assertNotEqual(same_draws(PAIRS, 10), same_draws(PAIRS, 10, seed=1))

    def test_in_processes_of_their_own(self) -> None:
        """Whatever the order of their sets and dictionaries: ranks of the spawn launcher share nothing."""
        said = [
            subprocess.run(
                [sys.executable, "-c", PROGRAM],
                env={**os.environ, "PYTHONHASHSEED": hashes},
                capture_output=True,
                check=True,
                text=True,
            ).stdout
            for hashes in ("1", "2")
        ]
        self.assertEqual(said[0], said[1])

    def test_small_strategies(self) -> None:
        """Give what they have."""
        self.assertEqual(sorted(same_draws(st.booleans(), 10)), [False, True])


if __name__ == "__main__":
    unittest.main()
