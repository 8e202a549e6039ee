"""Tests what the tests of a fork report; forks, hangs and deaths are in ``test_forks.py``."""

from __future__ import annotations

import unittest
from multiprocessing.connection import Pipe
from unittest import mock

from tools.mutation.attempts import Began, Ran
from tools.mutation.warm_process import Reporting


class Tried(unittest.TestCase):
    """Tests with every end; this module does not run them as its own."""

    def good(self) -> None:
        """Passes."""

    def bad(self) -> None:
        """Fails."""
        self.fail("words")

    def parts(self) -> None:
        """Fails in a part."""
        with self.subTest(1):
            self.fail("of a part")

    @unittest.expectedFailure
    def unexpected(self) -> None:
        """Passes, which it should not."""

    def skips(self) -> None:
        """Says that it skips."""
        self.skipTest("no need")


class ReportingTest(unittest.TestCase):
    """What is sent."""

    def reported(self, *names: str) -> list[Ran]:
        """What is reported of these tests, each of which is first said to begin."""
        receiver, sender = Pipe(duplex=False)
        with receiver, sender:
            unittest.TestSuite(Tried(name) for name in names).run(Reporting(sender))
            found = []
            while receiver.poll():
                found.append(receiver.recv())
        self.assertEqual(
            [m.test for m in found if isinstance(m, Began)], [f"{__name__}.Tried.{n}" for n in names]
        )
        return [message for message in found if isinstance(message, Ran)]

    def test_ends(self) -> None:
        words = [ran.words for ran in self.reported("good", "bad", "parts", "unexpected", "skips")]
        self.assertEqual([words[0], words[3], words[4]], ["", "unexpected success", ""])
        self.assertRegex(words[1], "AssertionError: words$")
        self.assertRegex(words[2], "AssertionError: of a part$")

    def test_fixture(self) -> None:
        """A class that cannot be set up has no test that begins, and a failure."""
        receiver, sender = Pipe(duplex=False)
        with receiver, sender, mock.patch.object(Tried, "setUpClass", side_effect=ValueError("none")):
            unittest.TestSuite([Tried("good")]).run(Reporting(sender))
            message = receiver.recv()
        self.assertEqual(message.test, f"setUpClass ({__name__}.Tried)")
        self.assertRegex(message.words, "ValueError: none$")
