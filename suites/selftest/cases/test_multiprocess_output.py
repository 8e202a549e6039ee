"""Fault table: what ranks print is captured by rank, bounded, and shown where it helps."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import tempfile
import unittest
from pathlib import Path

from harness import Status
from suites.selftest.faults import printing
from suites.selftest.faults.rows import OnForkServer, OnSpawn, Rows

# What this process may grow by at its peak while a rank prints a hundred megabytes: the tail that is kept is
# 64 KiB; the rest is what Python and its allocator do anyway.
FLOOD_GROWTH_BYTES = 20 * printing.MEGABYTE
# Characters of output that a verdict shows at most: 20 lines, the longest of which is cut.
LONGEST_TEXT = 200_000


def peak_bytes() -> int:
    """The greatest resident size that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class OutputRows(Rows):
    """Rank 1 prints."""

    def test_flood(self) -> None:
        """A hundred megabytes block nobody and cost no memory."""
        before = peak_bytes()
        played = self.play(printing.Prints, "test_flood")
        self.assertEqual(played.verdict, "pass", played.text[:1000])
        self.assertLess(peak_bytes() - before, FLOOD_GROWTH_BYTES)
        self.assertIn("bytes left out", played.rank(1).output)

    def test_flood_and_fail(self) -> None:
        """The last words survive the flood."""
        played = self.play(printing.Prints, "test_flood_and_fail")
        self.check(
            played, "FAIL", Status.FAILED, "rank 1 failed: AssertionError: after the flood", "last words"
        )
        self.assertLess(len(played.text), LONGEST_TEXT)

    def test_flood_into_a_log(self) -> None:
        """The log holds the beginning up to its bound, and the verdict says where it is."""
        logs = tempfile.mkdtemp()
        self.addCleanup(_remove_logs, logs)
        played = self.play(printing.Prints, "test_flood_and_fail", HARNESS_LOG_DIR=logs)
        log = played.rank(1).log
        assert log is not None
        self.assertIn(log, played.text)
        self.assertLessEqual(os.path.getsize(log), 65 * printing.MEGABYTE)
        self.assertGreater(os.path.getsize(log), 60 * printing.MEGABYTE)

    def test_binary_and_fail(self) -> None:
        """Escaped where it is no text."""
        played = self.play(printing.Prints, "test_binary_and_fail")
        self.check(played, "FAIL", Status.FAILED, "after binary output", "\\xff\\xfe", " end")

    def test_escape_sequences_and_fail(self) -> None:
        """Kept as they are in the outcome; what a console makes of them is the console's matter."""
        played = self.play(printing.Prints, "test_escape_sequences_and_fail")
        self.check(played, "FAIL", Status.FAILED, "after colours")
        self.assertIn("\x1b[31mred", played.rank(1).output)

    def test_surrogates(self) -> None:
        """Printing them is no error."""
        self.assertEqual(self.play(printing.Prints, "test_surrogates").verdict, "pass")

    def test_closed_streams_pass(self) -> None:
        """A test may close what it likes."""
        played = self.play(printing.Prints, "test_closed_streams_pass")
        self.assertEqual(played.verdict, "pass", played.text)

    def test_closed_streams_fail(self) -> None:
        """The verdict does not go by the streams."""
        played = self.play(printing.Prints, "test_closed_streams_fail")
        self.check(played, "FAIL", Status.FAILED, "told in spite of closed streams")

    def test_closed_descriptors_fail(self) -> None:
        """The verdict does not go by the descriptors either."""
        played = self.play(printing.Prints, "test_closed_descriptors_fail")
        self.check(played, "FAIL", Status.FAILED, "told in spite of closed descriptors", "before closing")

    def test_no_streams_fail(self) -> None:
        """Nor by there being streams."""
        played = self.play(printing.Prints, "test_no_streams_fail")
        self.check(played, "FAIL", Status.FAILED, "told without streams")

    def test_all_sources_and_fail(self) -> None:
        """Python, C, children and grandchildren, each for its own rank, in their order."""
        played = self.play(printing.Prints, "test_all_sources_and_fail")
        self.assertEqual(played.verdict, "FAIL")
        lines = ["from Python", "from stderr", "from C", "from a child", "from a grandchild"]
        self.assertEqual(played.rank(1).output.splitlines(), lines)
        self.assertEqual(played.rank(0).output, "")

    def test_unflushed_and_pass(self) -> None:
        """What is still in a buffer when the test ends is not lost."""
        played = self.play(printing.Prints, "test_unflushed_and_pass")
        for rank in (0, 1):
            self.assertIn(f"unflushed from C of rank {rank}", played.rank(rank).output)
            self.assertIn(f"no newline from rank {rank}", played.rank(rank).output)

    def test_captured(self) -> None:
        """A test that passes shows nothing."""
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            played = self.play(printing.Prints, "test_print_and_pass")
        self.assertEqual((played.verdict, shown.getvalue()), ("pass", ""))
        self.assertEqual(played.rank(1).output, "hello from rank 1\nC says hello from rank 1\n")

    def test_streamed(self) -> None:
        """HARNESS_RANK_OUTPUT=stream shows it live, each line with its rank."""
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            self.play(printing.Prints, "test_print_and_pass", HARNESS_RANK_OUTPUT="stream")
        said = ["hello from rank", "C says hello from rank"]
        expected = sorted(f"[rank {rank}] {words} {rank}" for rank in (0, 1) for words in said)
        self.assertEqual(sorted(shown.getvalue().splitlines()), expected)

    def test_streamed_without_newline(self) -> None:
        """A last line without its newline is shown as a line."""
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            self.play(printing.Prints, "test_unflushed_and_pass", HARNESS_RANK_OUTPUT="stream")
        for rank in (0, 1):
            self.assertIn(f"[rank {rank}] no newline from rank {rank}", shown.getvalue())
        self.assertTrue(all(line.startswith("[rank ") for line in shown.getvalue().splitlines()))


class OutputOnForkServer(OutputRows, OnForkServer):
    """On the fork server."""


class OutputOnSpawn(OutputRows, OnSpawn):
    """On new interpreters."""


def _remove_logs(directory: str) -> None:
    for path in Path(directory).iterdir():
        path.unlink()
    Path(directory).rmdir()


if __name__ == "__main__":
    unittest.main()
