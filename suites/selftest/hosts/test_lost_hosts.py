"""Tests what processes of a run tell each other of hosts that do not answer."""

from __future__ import annotations

import contextlib
import os
import tempfile
import unittest
from pathlib import Path

from harness.hosts.lost_hosts import AGAIN_S, LostHosts


class LostHostsTest(unittest.TestCase):
    """Two processes of a run, with a clock that the test sets."""

    def setUp(self) -> None:
        self.undo = contextlib.ExitStack()
        self.addCleanup(self.undo.close)
        self.directory = self.undo.enter_context(tempfile.TemporaryDirectory())
        self.now_s = 1000.0
        self.one, self.other = (LostHosts(f"{self.directory}/key", lambda: self.now_s) for _ in range(2))

    def test_told(self) -> None:
        """A loss is known to the other process, whatever the host is called, until the host answers."""
        for name in ("h1", "node/1", "h#2"):
            with self.subTest(name):
                self.assertEqual(self.other.why(name), "")
                self.one.note(name, f"host {name} was lost: it is silent")
                self.assertEqual(self.other.why(name), f"host {name} was lost: it is silent")
                self.assertEqual(self.other.all(), {name: f"host {name} was lost: it is silent"})
                self.one.answers(name)
                self.assertEqual((self.other.why(name), self.other.all()), ("", {}))

    def test_asked_again(self) -> None:
        """After a while one process asks again, and the others do not while it does."""
        self.one.note("h1", "silent")
        self.now_s += AGAIN_S - 1
        self.assertEqual(self.one.why("h1"), "silent")
        self.now_s += 1
        self.assertEqual([self.one.why("h1"), self.other.why("h1")], ["", "silent"])

    def test_end(self) -> None:
        """Nothing is left of it, and nothing is made where the directory of the run is gone."""
        Path(self.directory, "key").touch()
        self.one.note("h1", "silent")
        self.one.remove()
        self.assertEqual(os.listdir(self.directory), ["key"])
        late = LostHosts(f"{self.directory}/gone/key")
        late.note("h1", "silent")
        self.assertEqual(late.all(), {})


if __name__ == "__main__":
    unittest.main()
