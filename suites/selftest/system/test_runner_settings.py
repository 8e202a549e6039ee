"""Tests how what unittest and pytest set is told from what others set."""

from __future__ import annotations

import io
import logging
import sys
import threading
import unittest
import warnings
from unittest import mock

from harness.system import runner_settings


class _PytestHandler(logging.Handler):
    __module__ = "_pytest.logging"


def _pytest_hook(*_: object) -> None:
    """Stands for a hook of pytest's."""


_pytest_hook.__module__ = "_pytest.unraisableexception"


class OwnTest(unittest.TestCase):
    """What is left of filters, hooks and handlers without those of the runner of tests."""

    def test_filters_of_unittest(self) -> None:
        """Under unittest's runner its own filters are left out, and the test's are not."""
        seen: list[list[runner_settings.Filter]] = []

        class Asks(unittest.TestCase):
            def runTest(self) -> None:
                warnings.filterwarnings("ignore", message="of this test")
                seen.append(runner_settings.own_filters())

        with warnings.catch_warnings():
            before = runner_settings.own_filters()
            runner = unittest.TextTestRunner(stream=io.StringIO(), warnings="always")
            self.assertTrue(runner.run(Asks()).wasSuccessful())
        self.assertEqual(seen[0][1:], before)
        self.assertEqual(seen[0][0][1].pattern, "of this test")

    def test_hooks(self) -> None:
        """A hook of pytest's counts as Python's own, and another's as that."""
        with mock.patch("sys.unraisablehook", _pytest_hook), mock.patch("threading.excepthook", print):
            self.assertIs(runner_settings.own_hook(sys, "unraisablehook"), sys.__unraisablehook__)
            self.assertIs(runner_settings.own_hook(threading, "excepthook"), print)

    def test_handlers(self) -> None:
        """A handler of pytest's is left out."""
        logger, own = logging.Logger("made here"), logging.NullHandler()
        for handler in (_PytestHandler(), own):
            logger.addHandler(handler)
        self.assertEqual(runner_settings.own_handlers(logger), (own,))

    def test_streams_of_handlers(self) -> None:
        """A handler gets the stream that stands for its old one; others keep theirs."""
        old, new, other = io.StringIO(), io.StringIO(), io.StringIO()
        first, second = logging.StreamHandler(old), logging.StreamHandler(other)
        runner_settings.redirect_handlers({id(old): new})
        self.assertIs(first.stream, new)
        self.assertIs(second.stream, other)


if __name__ == "__main__":
    unittest.main()
