"""Tests how many intra-op threads a process gets."""

from __future__ import annotations

import os
import sys
import unittest
from unittest import mock

from harness.system import intra_op_threads


class IntraOpThreadsTest(unittest.TestCase):
    """The number that the user asks for, and a rank's share of the processors."""

    def test_asked_for(self) -> None:
        """The first number of OMP_NUM_THREADS counts; what is no positive number asks for nothing."""
        for text, number in (
            (None, None),
            ("", None),
            ("4", 4),
            (" 4 ", 4),
            ("4,2,1", 4),
            ("0", None),
            ("-1", None),
            ("many", None),
            (",2", None),
            ("\u00b2", None),
            (str(2**31), None),
        ):
            environ = {} if text is None else {"OMP_NUM_THREADS": text}
            with self.subTest(text=text):
                self.assertEqual(intra_op_threads.asked_for(environ), number)

    def test_of_rank(self) -> None:
        """A rank gets its share of the processors that this process may use, but one thread at least."""
        for processors, world_size, number in ((8, 2, 4), (8, 3, 2), (2, 2, 1), (2, 32, 1), (1, 1, 1)):
            usable = set(range(processors))
            with (
                self.subTest(processors=processors, world_size=world_size),
                mock.patch.object(os, "sched_getaffinity", return_value=usable),
            ):
                self.assertEqual(intra_op_threads.of_rank({}, world_size), number)
                self.assertEqual(intra_op_threads.of_rank({"OMP_NUM_THREADS": "5"}, world_size), 5)

    def test_set_in_torch(self) -> None:
        """A number is set where torch is loaded, also where it is right already; torch is not imported."""
        torch = mock.Mock()
        with mock.patch.dict(sys.modules, {"torch": torch}):
            intra_op_threads.set_in_torch(None)
            torch.set_num_threads.assert_not_called()
            intra_op_threads.set_in_torch(3)
            intra_op_threads.set_in_torch(3)
        self.assertEqual(torch.set_num_threads.call_args_list, [mock.call(3)] * 2)
        with mock.patch.dict(sys.modules):
            sys.modules.pop("torch", None)
            intra_op_threads.set_in_torch(3)
            self.assertNotIn("torch", sys.modules)


if __name__ == "__main__":
    unittest.main()
