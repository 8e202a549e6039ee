"""Ranks that print too much, print bytes that are no text, or print after closing their streams."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

from suites.selftest.faults.base import FaultyCase

MEGABYTE = 1 << 20
FLOOD_MEGABYTES = 100


class Prints(FaultyCase):
    """Rank 1 prints, and fails afterwards if the method's name says so."""

    def in_rank_1(self) -> bool:
        """Returns True in rank 1."""
        return self.rank == 1

    def test_flood(self) -> None:
        """Rank 1 prints a hundred megabytes and passes."""
        if self.in_rank_1():
            flood()

    def test_flood_and_fail(self) -> None:
        """Rank 1 prints a hundred megabytes and fails; the last line of its output matters."""
        if self.in_rank_1():
            flood()
            print("last words")
            self.fail("after the flood")

    def test_binary_and_fail(self) -> None:
        """Rank 1 prints bytes that are not text in any encoding, with no newline at their end, and fails."""
        if self.in_rank_1():
            os.write(1, bytes(range(256)) + b"\n" + b"\xff\xfe\x00 end")
            self.fail("after binary output")

    def test_escape_sequences_and_fail(self) -> None:
        """Rank 1 prints escape sequences that would recolour a terminal or delete its lines, and fails."""
        if self.in_rank_1():
            print("\x1b[31mred\x1b[2J and gone\rover")
            self.fail("after colours")

    def test_surrogates(self) -> None:
        """Each rank prints text that is not valid Unicode."""
        print("half \udc80 a pair")

    def test_closed_streams_pass(self) -> None:
        """Each rank closes the stream objects and passes."""
        sys.stdout.close()
        sys.stderr.close()

    def test_closed_streams_fail(self) -> None:
        """Rank 1 closes the stream objects and fails."""
        if self.in_rank_1():
            sys.stdout.close()
            sys.stderr.close()
            self.fail("told in spite of closed streams")

    def test_closed_descriptors_fail(self) -> None:
        """Rank 1 closes the descriptors of its streams and fails."""
        if self.in_rank_1():
            print("before closing", flush=True)
            os.close(1)
            os.close(2)
            self.fail("told in spite of closed descriptors")

    def test_no_streams_fail(self) -> None:
        """Rank 1 has no streams, as under pythonw, and fails."""
        if self.in_rank_1():
            sys.stdout = sys.stderr = None
            self.fail("told without streams")

    def test_all_sources_and_fail(self) -> None:
        """Rank 1 prints from Python, from C, from a child and from a grandchild; all ranks fail."""
        if self.in_rank_1():
            print("from Python")
            print("from stderr", file=sys.stderr)
            print_from_c("from C\n")
            subprocess.run(["sh", "-c", "echo from a child; sh -c 'echo from a grandchild >&2'"], check=True)
        self.fail("to see the output")

    def test_unflushed_and_pass(self) -> None:
        """Each rank leaves text in the buffers of C and Python that is flushed only at its exit."""
        print_from_c(f"unflushed from C of rank {self.rank}\n", flush=False)
        sys.stdout.write(f"no newline from rank {self.rank}")

    def test_print_and_pass(self) -> None:
        """Each rank prints lines and passes, so that nobody wants to read them."""
        print(f"hello from rank {self.rank}")
        print_from_c(f"C says hello from rank {self.rank}\n")


def flood() -> None:
    """Prints as many megabytes as FLOOD_MEGABYTES says."""
    line = b"x" * (MEGABYTE - 1) + b"\n"
    for _ in range(FLOOD_MEGABYTES):
        sys.stdout.buffer.write(line)
    sys.stdout.flush()


def print_from_c(text: str, *, flush: bool = True) -> None:
    """Prints with libc's printf, into a buffer that Python does not know."""
    libc = ctypes.CDLL(None)
    libc.printf(b"%s", text.encode())
    if flush:
        libc.fflush(None)
