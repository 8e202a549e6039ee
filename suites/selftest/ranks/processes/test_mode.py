"""Tests what the rank modes do with a server that is of no more use."""

from __future__ import annotations

import unittest
from unittest import mock

from harness.ranks.job import UNSWEPT, JobResult
from harness.ranks.processes import mode
from harness.ranks.processes.launcher import Launcher


class StuckServerTest(unittest.TestCase):
    """A server that could not sweep what ranks left."""

    def test_table(self) -> None:
        """The server is ended if the notes of the test say that it could not sweep."""
        for notes, ended in (((), False), (("something else",), False), ((UNSWEPT,), True)):
            with self.subTest(notes=notes):
                launcher = mock.create_autospec(Launcher, instance=True)
                mode.replace_if_stuck(launcher, JobResult((), (), notes=notes))
                self.assertEqual(launcher.close.called, ended)


if __name__ == "__main__":
    unittest.main()
