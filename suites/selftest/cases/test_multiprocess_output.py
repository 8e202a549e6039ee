"""Tests that what ranks print is captured by rank, bounded, and shown where it helps."""

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
from suites.selftest.faults.rows import OnForkedInterpreters, OnForkServer, Rows

# By how much this process may grow at its peak while a rank prints a hundred megabytes: the tail that is kept
# is 64 KiB; the rest is overhead of Python and its allocator.
FLOOD_GROWTH_BYTES = 20 * printing.MEGABYTE
# Characters of output that a verdict shows at most: 20 lines, the longest of which is cut.
LONGEST_TEXT = 200_000


def peak_bytes() -> int:
    """Returns the greatest resident size that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class OutputRows(Rows):
    """Tests whose rank 1 prints something."""

    def test_flood(self) -> None:
        """A hundred megabytes of output block nobody and cost no memory."""
        before = peak_bytes()
        played = self.play(printing.Prints, "test_flood")
        self.assertEqual(played.verdict, "pass", played.text[:1000])
        self.assertLess(peak_bytes() - before, FLOOD_GROWTH_BYTES)
        self.assertIn("bytes left out", played.rank(1).output)

    def test_flood_and_fail(self) -> None:
        """The last lines before a failure are shown after a hundred megabytes of output."""
        played = self.play(printing.Prints, "test_flood_and_fail")
        self.check(
            played, "FAIL", Status.FAILED, "rank 1 failed: AssertionError: after the flood", "last words"
        )
        self.assertLess(len(played.text), LONGEST_TEXT)

    def test_flood_into_a_log(self) -> None:
        """The log holds the beginning of the output up to its limit, and the verdict names the file."""
        logs = tempfile.mkdtemp()
        self.addCleanup(_remove_logs, logs)
        played = self.play(printing.Prints, "test_flood_and_fail", HARNESS_LOG_DIR=logs)
        log = played.rank(1).log
        assert log is not None
        self.assertIn(log, played.text)
        self.assertLessEqual(os.path.getsize(log), 65 * printing.MEGABYTE)
        self.assertGreater(os.path.getsize(log), 60 * printing.MEGABYTE)

    def test_binary_and_fail(self) -> None:
        """Bytes that are not text are escaped."""
        played = self.play(printing.Prints, "test_binary_and_fail")
        self.check(played, "FAIL", Status.FAILED, "after binary output", "\\xff\\xfe", " end")

    def test_escape_sequences_and_fail(self) -> None:
        """Escape sequences stay in the outcome, because only the console decides about them."""
        played = self.play(printing.Prints, "test_escape_sequences_and_fail")
        self.check(played, "FAIL", Status.FAILED, "after colours")
        self.assertIn("\x1b[31mred", played.rank(1).output)

    def test_surrogates(self) -> None:
        """Text that is not valid Unicode can be printed."""
        self.assertEqual(self.play(printing.Prints, "test_surrogates").verdict, "pass")

    def test_closed_streams_pass(self) -> None:
        """A test that closes its streams passes."""
        played = self.play(printing.Prints, "test_closed_streams_pass")
        self.assertEqual(played.verdict, "pass", played.text)

    def test_closed_streams_fail(self) -> None:
        """A rank reports a failure although its streams are closed."""
        played = self.play(printing.Prints, "test_closed_streams_fail")
        self.check(played, "FAIL", Status.FAILED, "told in spite of closed streams")

    def test_closed_descriptors_fail(self) -> None:
        """A rank reports a failure although its descriptors 1 and 2 are closed."""
        played = self.play(printing.Prints, "test_closed_descriptors_fail")
        self.check(played, "FAIL", Status.FAILED, "told in spite of closed descriptors", "before closing")

    def test_no_streams_fail(self) -> None:
        """A rank reports a failure although it has no streams."""
        played = self.play(printing.Prints, "test_no_streams_fail")
        self.check(played, "FAIL", Status.FAILED, "told without streams")

    def test_all_sources_and_fail(self) -> None:
        """Output of Python, C, children and grandchildren is captured for its own rank and in order."""
        played = self.play(printing.Prints, "test_all_sources_and_fail")
        self.assertEqual(played.verdict, "FAIL")
        lines = ["from Python", "from stderr", "from C", "from a child", "from a grandchild"]
        self.assertEqual(played.rank(1).output.splitlines(), lines)
        self.assertEqual(played.rank(0).output, "")

    def test_unflushed_and_pass(self) -> None:
        """Output that is still in a buffer when the test ends is not lost."""
        played = self.play(printing.Prints, "test_unflushed_and_pass")
        for rank in (0, 1):
            self.assertIn(f"unflushed from C of rank {rank}", played.rank(rank).output)
            self.assertIn(f"no newline from rank {rank}", played.rank(rank).output)

    def test_captured(self) -> None:
        """A test that passes shows no output."""
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            played = self.play(printing.Prints, "test_print_and_pass")
        self.assertEqual((played.verdict, shown.getvalue()), ("pass", ""))
        self.assertEqual(played.rank(1).output, "hello from rank 1\nC says hello from rank 1\n")

    def test_streamed(self) -> None:
        """With HARNESS_RANK_OUTPUT=stream output is shown live, each line with its rank."""
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
    """Runs the tests on the fork server."""


class OutputOnSpawn(OutputRows, OnForkedInterpreters):
    """Runs the tests on forks of an interpreter."""


def _remove_logs(directory: str) -> None:
    for path in Path(directory).iterdir():
        path.unlink()
    Path(directory).rmdir()


if __name__ == "__main__":
    unittest.main()
