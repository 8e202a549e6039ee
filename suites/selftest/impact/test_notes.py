"""Tests what processes note in a directory, and that nothing of it gets lost or mixed up."""

from __future__ import annotations

import os
import tempfile
import threading
import unittest
from collections import Counter
from pathlib import Path

from harness.impact import notes
from harness.impact.notes import Notes


class NotesTest(unittest.TestCase):
    """``Notes`` and ``read``."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)
        (self.directory / "below").write_text("no notes")

    def noted(self) -> Counter[tuple[str, str]]:
        """What has been noted, how often."""
        return Counter(notes.read(self.directory))

    def test_once(self) -> None:
        """An entry is noted once for each test, whatever comes in between; names are any that files have."""
        each = Notes(self.directory)
        for test, entry in (
            (b"x", b"1"),
            (b"x", b"\xff"),
            (b"y", b"1"),
            (b"x", b"1"),
            (b"x", b"2"),
            (b"y", b"1"),
        ):
            each.add(test, entry)
        self.assertEqual(self.noted(), Counter([("x", "1"), ("x", "\udcff"), ("y", "1"), ("x", "2")]))

    def test_processes(self) -> None:
        """A fork begins anew, in a file of its own, and what it noted is there when it is killed."""
        each = Notes(self.directory)
        each.add(b"x", b"1")
        if not os.fork():
            each.add(b"x", b"1")
            os.kill(os.getpid(), 9)
        os.wait()
        each.add(b"x", b"2")
        self.assertEqual(self.noted(), Counter([("x", "1"), ("x", "1"), ("x", "2")]))
        self.assertEqual(len(list(self.directory.iterdir())), 3)

    def test_threads(self) -> None:
        """Ranks that are threads note at the same time, each entry for its test."""
        each, go = Notes(self.directory), threading.Barrier(4)

        def note(number: int) -> None:
            for test in range(50):
                go.wait()
                each.add(b"t%d" % test, b"%d of %d" % (number, test))

        threads = [threading.Thread(target=note, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wanted = Counter((f"t{test}", f"{number} of {test}") for test in range(50) for number in range(4))
        self.assertEqual(self.noted(), wanted)


if __name__ == "__main__":
    unittest.main()
