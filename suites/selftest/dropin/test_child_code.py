"""Tests which modules are known to do something else in a child."""

from __future__ import annotations

import multiprocessing
import unittest

from harness.dropin.child_code import differs_in_children


class ChildCodeTest(unittest.TestCase):
    """``differs_in_children``, of modules that are imported here."""

    def test_this_module(self) -> None:
        """This one asks for the name of its process."""
        self.assertTrue(multiprocessing.current_process().name)
        self.assertTrue(differs_in_children(__name__))

    def test_others(self) -> None:
        """One that does not ask, one without a source, one that nobody has imported."""
        for name in ("harness.dropin.skips", "_signal", "no.such.module"):
            with self.subTest(name):
                self.assertFalse(differs_in_children(name))


if __name__ == "__main__":
    unittest.main()
