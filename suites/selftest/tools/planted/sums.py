"""Tests of the small suite: in one process, in a child, on ranks of each kind, on ranks that die or hang."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import unittest

from harness import MultiProcessTestCase, MultiThreadedTestCase
from suites.selftest.tools.planted import arithmetic


class SingleTest(unittest.TestCase):
    """Tests that run in the worker itself."""

    def test_value(self) -> None:
        self.assertEqual(arithmetic.double(4), 8)

    def test_one(self) -> None:
        self.assertEqual(arithmetic.double(1), 2)

    def test_large(self) -> None:
        self.assertEqual(arithmetic.double(8), 16)

    def test_type(self) -> None:
        self.assertIsInstance(arithmetic.double(4), int)

    def test_other_matter(self) -> None:
        self.assertNotIn("PLANTED_TO_FAIL", os.environ)

    def test_child(self) -> None:
        code = f"from {arithmetic.__name__} import double; raise SystemExit(double(4) != 8)"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], check=False).returncode, 0)

    def test_waits_until_done(self) -> None:
        if not arithmetic.is_done(3):
            threading.Event().wait()


class FreshTest(MultiProcessTestCase):
    """Tests that run on fresh ranks."""

    rank_modes = ("fresh",)
    world_size = 2

    def test_ranks(self) -> None:
        self.assertEqual(arithmetic.double(self.rank), self.rank + self.rank)

    def test_dies(self) -> None:
        if self.rank == 1 and arithmetic.double(4) != 8:
            os._exit(3)

    def test_unheeded_on_one_rank(self) -> None:
        if self.rank == 1:
            arithmetic.double(4)


class PooledTest(MultiProcessTestCase):
    """Tests that run on pooled ranks."""

    rank_modes = ("pooled",)
    world_size = 2

    def test_ranks(self) -> None:
        self.assertEqual(arithmetic.double(self.rank), self.rank + self.rank)

    def test_unheeded(self) -> None:
        arithmetic.double(5)

    def test_other_matter(self) -> None:
        self.assertLess(self.rank, 2)


class ThreadedTest(MultiThreadedTestCase):
    """Tests that run on ranks that are threads."""

    world_size = 2

    def test_ranks(self) -> None:
        self.assertEqual(arithmetic.double(self.rank), self.rank + self.rank)

    def test_other_matter(self) -> None:
        self.assertLess(self.rank, 2)
