"""Tests what ``multiprocessing`` says in a rank."""

from __future__ import annotations

import multiprocessing
import os
import unittest

from harness.ranks.processes import process_identity


class IdentityTest(unittest.TestCase):
    """``be_rank`` and ``be_main``, in this process."""

    def test_rank(self) -> None:
        """A rank is a child with a name and a living parent, whose end it cannot wait for."""
        self.addCleanup(process_identity.be_main)
        process_identity.be_rank(3)
        parent = multiprocessing.parent_process()
        assert parent is not None
        self.assertEqual(multiprocessing.current_process().name, "process 3")
        self.assertEqual(parent.pid, os.getppid())
        self.assertTrue(parent.is_alive())
        with self.assertRaisesRegex(RuntimeError, "cannot wait"):
            parent.join()

    def test_main(self) -> None:
        """A main process has neither, and can start children as before."""
        process_identity.be_rank(1)
        process_identity.be_main()
        self.assertIsNone(multiprocessing.parent_process())
        self.assertEqual(multiprocessing.current_process().name, "MainProcess")


if __name__ == "__main__":
    unittest.main()
