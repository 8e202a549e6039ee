"""Self-tests of harness.hypothesis_examples: how many a property test draws, and whether they repeat."""

from __future__ import annotations

import os
import unittest
from unittest import mock

import hypothesis
from hypothesis import strategies as st

from harness.hypothesis_examples import bounded, seed_of_examples


class BoundedTest(unittest.TestCase):
    def drawn(self, **environ: str) -> list[int]:
        """The values that a property test of ten examples draws in this environment."""
        values: list[int] = []
        with mock.patch.dict(os.environ, environ):

            @bounded(10)
            @hypothesis.given(st.integers())
            def collect(value: int) -> None:
                values.append(value)

        collect()
        return values

    def test_examples_are_few_and_the_same_each_time(self) -> None:
        first = self.drawn()
        self.assertLessEqual(len(first), 10)
        self.assertEqual(first, self.drawn())

    def test_the_environment_asks_for_more(self) -> None:
        self.assertGreater(len(self.drawn(HARNESS_EXAMPLES="60")), 40)

    def test_more_examples_are_other_ones_each_time(self) -> None:
        with mock.patch.dict(os.environ):
            os.environ.pop("HARNESS_SEED", None)
            self.assertNotEqual(self.drawn(HARNESS_EXAMPLES="60"), self.drawn(HARNESS_EXAMPLES="60"))

    def test_more_examples_of_a_seed(self) -> None:
        """A run's seed decides which they are; it does not change the few that are always the same."""
        asked = {"HARNESS_EXAMPLES": "60"}
        first = self.drawn(**asked, HARNESS_SEED="7")
        self.assertEqual(first, self.drawn(**asked, HARNESS_SEED="7"))
        self.assertNotEqual(first, self.drawn(**asked, HARNESS_SEED="8"))
        self.assertEqual(self.drawn(HARNESS_SEED="7"), self.drawn(HARNESS_SEED="8"))

    def test_seed_of_examples(self) -> None:
        """What is drawn without hypothesis starts from the same seed."""
        with mock.patch.dict(os.environ, HARNESS_SEED="7"):
            os.environ.pop("HARNESS_EXAMPLES", None)
            self.assertEqual(seed_of_examples("usual"), "usual")
            os.environ["HARNESS_EXAMPLES"] = "60"
            self.assertEqual(seed_of_examples("usual"), 7)


if __name__ == "__main__":
    unittest.main()
