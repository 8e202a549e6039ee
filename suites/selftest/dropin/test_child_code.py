"""Tests which modules are known to do something else in a child."""

from __future__ import annotations

import multiprocessing
import unittest

from harness.dropin.child_code import asking_line, differs_in_children


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

    def test_line(self) -> None:
        """The first line that asks, of a source that nobody has imported."""
        for source, line in (
            ("import os\n\nif multiprocessing.current_process().name: pass\n", 3),
            ("if parent_process() is None: get_start_method()\n", 1),
            ("current_process = 1\nmy_current_process()\n", None),
        ):
            with self.subTest(source):
                self.assertEqual(asking_line(source), line)


if __name__ == "__main__":
    unittest.main()
