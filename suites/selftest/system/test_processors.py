"""Tests how many processors a process may use, and how they are shared."""

from __future__ import annotations

import os
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from harness.system import intra_op_threads, processors


class Processors(unittest.TestCase):
    """The affinity of a process of eight processors, and the quota of its control group."""

    def setUp(self) -> None:
        mask = unittest.mock.patch.object(os, "sched_getaffinity", return_value=set(range(8)))
        mask.start()
        self.addCleanup(mask.stop)

    def test_quota(self) -> None:
        """The quota limits the processors to whole ones, one at least; an odd or missing file does not."""
        table = (("300000 100000", 3), ("350000 100000", 3), ("50000 100000", 1), ("1600000 100000", 8))
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "cpu.max")
            self.assertEqual(processors.available(file), 8)
            for text, wanted in (*table, ("max 100000", 8), ("junk", 8), ("", 8), ("1 0", 8)):
                file.write_text(text)
                with self.subTest(text=text):
                    self.assertEqual(processors.available(file), wanted)

    def test_tests_at_once(self) -> None:
        """Three tests for two processors, in whole ones; one processor has one."""
        self.assertEqual([*map(processors.tests_at_once, (1, 2, 3, 4, 64))], [1, 3, 4, 6, 96])

    def test_share(self) -> None:
        """Processes share the processors in whole ones, and each has at least one."""
        with unittest.mock.patch.object(processors, "available", return_value=8):
            self.assertEqual([processors.share(count) for count in (1, 2, 3, 8, 9, 100)], [8, 4, 2, 1, 1, 1])

    def test_ranks_share_them(self) -> None:
        """A rank has its share as its thread count, unless the user asks for another number."""
        with unittest.mock.patch.object(processors, "available", return_value=8):
            self.assertEqual(intra_op_threads.of_rank({}, 4), 2)
            self.assertEqual(intra_op_threads.of_rank({"OMP_NUM_THREADS": "3,1"}, 4), 3)


if __name__ == "__main__":
    unittest.main()
