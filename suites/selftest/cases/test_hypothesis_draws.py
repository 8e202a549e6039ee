"""Tests ``same_draws``, whose values depend on the seed alone."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import hypothesis
import torch.distributed as dist
from hypothesis import strategies as st

from harness import MultiThreadedTestCase, UsageError, same_draws
from suites.selftest.properties import UNHURRIED

PAIRS = st.tuples(st.integers(), st.text(max_size=5))
PROGRAM = """
from harness import same_draws
from hypothesis import strategies as st
print(same_draws(st.tuples(st.integers(), st.text(max_size=5)), 10))
"""


class SameDrawsTest(unittest.TestCase):
    """Ranks that draw alone get the same values."""

    def test_of_the_seed(self) -> None:
        """The same seed gives the same values, and another seed gives others."""
        self.assertEqual(same_draws(PAIRS, 10), same_draws(PAIRS, 10))
        self.assertEqual(len(same_draws(PAIRS, 10)), 10)
        self.assertNotEqual(same_draws(PAIRS, 10), same_draws(PAIRS, 10, seed=1))

    def test_in_processes_of_their_own(self) -> None:
        """Processes with different hash seeds draw the same values, as ranks of the spawn launcher must."""
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

    def test_whatever_else_is_imported(self) -> None:
        """Numbers of imported modules are not drawn, although hypothesis otherwise still draws them."""
        numbers = [7919 * n + 13 for n in range(300)]
        before = same_draws(st.integers(), 200)
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "full_of_numbers.py").write_text(f"NUMBERS = {numbers}")
            with mock.patch.object(sys, "path", [directory, *sys.path]):
                importlib.import_module("full_of_numbers")
            self.addCleanup(sys.modules.pop, "full_of_numbers")
            self.assertEqual(same_draws(st.integers(), 200), before)
            drawn: set[int] = set()

            @hypothesis.settings(UNHURRIED, max_examples=1000, database=None, derandomize=True)
            @hypothesis.given(st.integers())
            def collect(value: int) -> None:
                drawn.add(value)

            collect()
            self.assertTrue(drawn & {*numbers})

    def test_small_strategies(self) -> None:
        """A strategy with few values gives all that it has."""
        self.assertEqual(sorted(same_draws(st.booleans(), 10)), [False, True])


class ConfirmTest(MultiThreadedTestCase):
    """Ranks that compare what they drew."""

    world_size = 3

    def test_same(self) -> None:
        """Values that are the same on all ranks come back."""
        self.assertEqual(same_draws(PAIRS, 10, confirm=True), same_draws(PAIRS, 10))

    def test_differs(self) -> None:
        """If values differ, all ranks get an error that names the ranks with other values."""
        with self.assertRaisesRegex(UsageError, "^same_draws: ranks 1, 2 drew other values than rank 0"):
            same_draws(PAIRS, 10, seed=min(self.rank, 1), confirm=True)

    def test_alone(self) -> None:
        """Without a group there is nothing to compare, and the values come back."""
        with mock.patch.object(dist, "is_initialized", return_value=False):
            self.assertEqual(len(same_draws(PAIRS, 10, confirm=True)), 10)


if __name__ == "__main__":
    unittest.main()
