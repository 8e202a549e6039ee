"""Tests how Python's state is read and compared; ``test_multiprocess_clean_ranks`` asks ranks about it."""

from __future__ import annotations

import logging
import sys
import threading
import types
import unittest
import warnings
from unittest import mock

from harness.system import python_state


class ChangedTest(unittest.TestCase):
    """``changed``, on values that were read before and after a change."""

    def test_nothing(self) -> None:
        """Nothing has changed between two looks, and where the imports are not known none is held to them."""
        now = python_state.values()
        self.assertEqual(python_state.changed(python_state.values(), now), ())
        other = {**now, "locale": "another"}
        self.assertEqual(python_state.changed(other, now), ("locale",))
        self.assertEqual(python_state.changed(other, None), ())

    def test_value_of_a_new_process(self) -> None:
        """Some values are known of any new process, whatever the imports have left."""
        with mock.patch("sys.getrecursionlimit", lambda: 2345):
            now = {item.name: item.read() for item in python_state.ITEMS}
            now["recursion limit"] = sys.getrecursionlimit()
        self.assertEqual(python_state.changed(now, now), ("recursion limit",))
        self.assertEqual(python_state.changed(now, None), ("recursion limit",))

    def test_tracing(self) -> None:
        """A profile function is a change, but for that by which the harness records what tests execute."""
        for home, is_change in (("harness.impact.recorder", False), ("coverage.tracer", False), ("m", True)):
            function = types.FunctionType((lambda *_: None).__code__, {"__name__": home})
            with self.subTest(home), mock.patch.object(threading, "_profile_hook", None):
                before = python_state.values()
                threading.setprofile(function)
                self.assertEqual(python_state.values() != before, is_change)

    def test_restored_is_not_changed(self) -> None:
        """What can be restored does not keep a process from being forked."""
        before = python_state.values()
        logger = logging.getLogger("made.by.this.test")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            logger.setLevel(5)
            now = python_state.values()
            self.assertNotEqual(now["filters of warnings"], before["filters of warnings"])
            self.assertNotEqual(now["logging"], before["logging"])
            self.assertEqual(python_state.changed(now, before), ())
            python_state.restore(before)
            self.assertEqual(python_state.values(), before)
        self.assertEqual(logger.level, logging.NOTSET)


if __name__ == "__main__":
    unittest.main()
