"""Tests the state that a process has once and each rank that is a thread has for itself."""

from __future__ import annotations

import json
import os
import random
import sys
import unittest
import warnings
from typing import Any

import torch

from harness.ranks.threads.rank_state import RankStates, items


class StateTest(unittest.TestCase):
    """State that a process has once and each rank has for itself."""

    def test_every_item_is_its_ranks_own(self) -> None:
        """What rank 0 changed is gone for rank 1, back for rank 0, and gone for the parent."""
        directory = os.getcwd()
        filters, stdout = warnings.filters, sys.stdout
        states = RankStates(2)
        self.addCleanup(states.restore)
        generator, drawn = random.getstate(), torch.random.get_rng_state()
        states.switch(0)
        self._change()
        states.switch(1)
        self._assert_unchanged(directory, stdout, generator, drawn)
        self.assertEqual(warnings.filters, filters)
        states.switch(0)
        self.assertEqual(os.environ["SELFTEST_STATE"], "changed")
        self.assertEqual((os.getcwd(), torch.get_default_dtype()), ("/", torch.float64))
        self.assertIs(json.dumps, str)
        self.assertIs(sys.stdout, sys.stderr)
        self.assertEqual(warnings.filters[0][0], "error")
        states.restore()
        self._assert_unchanged(directory, stdout, generator, drawn)
        self.assertIs(warnings.filters, filters)

    def _change(self) -> None:
        os.environ["SELFTEST_STATE"] = "changed"
        setattr(json, "dumps", str)  # noqa: B010 - to the type checker it is another function
        os.chdir("/")
        torch.set_default_dtype(torch.float64)
        torch.set_float32_matmul_precision("high")
        torch.set_warn_always(True)
        sys.stdout = sys.stderr
        warnings.simplefilter("error")
        random.random()
        torch.rand(1)

    def _assert_unchanged(self, directory: str, stdout: Any, generator: Any, drawn: torch.Tensor) -> None:
        self.assertNotIn("SELFTEST_STATE", os.environ)
        self.assertEqual(json.dumps(["x"]), '["x"]')
        self.assertEqual((os.getcwd(), torch.get_default_dtype()), (directory, torch.float32))
        self.assertEqual(torch.get_float32_matmul_precision(), "highest")
        self.assertFalse(torch.is_warn_always_enabled())
        self.assertIs(sys.stdout, stdout)
        self.assertEqual(random.getstate(), generator)
        self.assertTrue(torch.equal(torch.random.get_rng_state(), drawn))

    def test_writing_what_was_read_changes_nothing(self) -> None:
        """Writing back the value that was read changes nothing, for every item."""
        for item in items():
            with self.subTest(item=item.name):
                value = item.read()
                item.write(value, item.read())
                after = item.read()
                same = torch.equal(value, after) if isinstance(value, torch.Tensor) else value == after
                self.assertTrue(same)


if __name__ == "__main__":
    unittest.main()
