"""Ranks that print too much, the wrong thing, or after they have closed what they print to."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

from suites.selftest.faults.base import FaultyCase

MEGABYTE = 1 << 20
FLOOD_MEGABYTES = 100


class Prints(FaultyCase):
    """Rank 1 prints; it fails afterwards where the method says so."""

    def in_rank_1(self) -> bool:
        """True in rank 1."""
        return self.rank == 1

    def test_flood(self) -> None:
        """A hundred megabytes, and a pass."""
        if self.in_rank_1():
            flood()

    def test_flood_and_fail(self) -> None:
        """A hundred megabytes, and a failure whose last words matter."""
        if self.in_rank_1():
            flood()
            print("last words")
            self.fail("after the flood")

    def test_binary_and_fail(self) -> None:
        """Bytes that are no text in any encoding, without a newline at their end."""
        if self.in_rank_1():
            os.write(1, bytes(range(256)) + b"\n" + b"\xff\xfe\x00 end")
            self.fail("after binary output")

    def test_escape_sequences_and_fail(self) -> None:
        """What would recolour a terminal or delete its lines."""
        if self.in_rank_1():
            print("\x1b[31mred\x1b[2J and gone\rover")
            self.fail("after colours")

    def test_surrogates(self) -> None:
        """Text that is no valid Unicode can be printed."""
        print("half \udc80 a pair")

    def test_closed_streams_pass(self) -> None:
        """Closed by the test, as objects."""
        sys.stdout.close()
        sys.stderr.close()

    def test_closed_streams_fail(self) -> None:
        """Closed by the test, as objects, and then it fails."""
        if self.in_rank_1():
            sys.stdout.close()
            sys.stderr.close()
            self.fail("told in spite of closed streams")

    def test_closed_descriptors_fail(self) -> None:
        """Closed by the test, as descriptors."""
        if self.in_rank_1():
            print("before closing", flush=True)
            os.close(1)
            os.close(2)
            self.fail("told in spite of closed descriptors")

    def test_no_streams_fail(self) -> None:
        """As under pythonw."""
        if self.in_rank_1():
            sys.stdout = sys.stderr = None
            self.fail("told without streams")

    def test_all_sources_and_fail(self) -> None:
        """Python, C, another process, another process of another process."""
        if self.in_rank_1():
            print("from Python")
            print("from stderr", file=sys.stderr)
            print_from_c("from C\n")
            subprocess.run(["sh", "-c", "echo from a child; sh -c 'echo from a grandchild >&2'"], check=True)
        self.fail("to see the output")

    def test_unflushed_and_pass(self) -> None:
        """C's buffer is written out when the rank leaves."""
        print_from_c(f"unflushed from C of rank {self.rank}\n", flush=False)
        sys.stdout.write(f"no newline from rank {self.rank}")

    def test_print_and_pass(self) -> None:
        """Nobody wants to read this."""
        print(f"hello from rank {self.rank}")
        print_from_c(f"C says hello from rank {self.rank}\n")


def flood() -> None:
    """Prints FLOOD_MEGABYTES."""
    line = b"x" * (MEGABYTE - 1) + b"\n"
    for _ in range(FLOOD_MEGABYTES):
        sys.stdout.buffer.write(line)
    sys.stdout.flush()


def print_from_c(text: str, *, flush: bool = True) -> None:
    """By libc's printf, through a buffer that Python knows nothing of."""
    libc = ctypes.CDLL(None)
    libc.printf(b"%s", text.encode())
    if flush:
        libc.fflush(None)
