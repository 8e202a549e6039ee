"""Tests what becomes of output that nobody reads, or that cannot be written."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import IO, NoReturn
from unittest import mock

from harness.errors import HarnessError
from harness.system import standard_output

ROOT = str(Path(__file__).resolve().parents[3])


def without_reader() -> IO[str]:
    """Returns a pipe's end of which nobody holds the other one."""
    readable, writable = os.pipe()
    os.close(readable)
    return os.fdopen(writable, "w")


def on_full_disk() -> IO[str]:
    """Returns a file of which no byte is ever stored."""
    return open("/dev/full", "w")


def nowhere() -> IO[str]:
    """Returns a file that keeps nothing."""
    return open(os.devnull, "w")


class StreamTest(unittest.TestCase):
    """In this process, with other streams."""

    def read(self) -> IO[str]:
        """Returns a pipe's end of which the test holds the other one."""
        readable, writable = os.pipe()
        self.addCleanup(os.close, readable)
        return os.fdopen(writable, "w")

    def test_has_reader(self) -> None:
        """Only a pipe can be without one, which counts on standard error, too."""
        table: tuple[tuple[Callable[[], IO[str]], bool], ...] = (
            (without_reader, False),
            (self.read, True),
            (on_full_disk, True),
            (nowhere, True),
            (io.StringIO, True),
        )
        for make, has in table:
            for name in ("stdout", "stderr"):
                with self.subTest(make, name=name), make() as stream, mock.patch.object(sys, name, stream):
                    self.assertEqual(standard_output.has_reader(), has)

    def test_has_reader_where_closed(self) -> None:
        """A stream that Python has closed is not asked."""
        closed = io.StringIO()
        closed.close()
        with mock.patch.object(sys, "stdout", closed):
            self.assertTrue(standard_output.has_reader())

    def test_write_out(self) -> None:
        """The text and all that was written before is there, or it raises; so it does without any text."""
        out = io.StringIO("before, ")
        out.seek(0, io.SEEK_END)
        with mock.patch.object(sys, "stdout", out):
            standard_output.write_out("after")
        self.assertEqual(out.getvalue(), "before, after")
        for make, error in ((without_reader, BrokenPipeError), (on_full_disk, HarnessError)):
            with self.subTest(make), make() as stream, mock.patch.object(sys, "stdout", stream):
                self.assertRaises(error, standard_output.write_out, "text")
                standard_output.drop_rest()
        with without_reader() as stream, mock.patch.object(sys, "stdout", stream):
            self.assertRaises(BrokenPipeError, standard_output.write_out)

    def test_drop_rest(self) -> None:
        """What cannot be written is gone afterwards; what can be written is."""
        for make in (without_reader, on_full_disk):
            for name in ("stdout", "stderr"):
                with self.subTest(make, name=name), make() as stream, mock.patch.object(sys, name, stream):
                    stream.write("text")
                    self.assertRaises(OSError, stream.flush)
                    standard_output.drop_rest()
                    stream.flush()
        with self.read() as stream, mock.patch.object(sys, "stdout", stream):
            standard_output.drop_rest()
            self.assertNotEqual(os.fstat(stream.fileno()), os.stat(os.devnull))


class WhileReadTest(unittest.TestCase):
    """``while_read``: which exit code a command gets."""

    def code(self, command: Callable[[], int], make: Callable[[], IO[str]]) -> int:
        """Runs a command with a standard output."""
        with make() as stream, mock.patch.object(sys, "stdout", stream):
            return standard_output.while_read(command, 141)

    def test_table(self) -> None:
        """Only what is printed for nobody to read changes the code."""

        def prints(code: int) -> int:
            standard_output.write_out("text")
            return code

        def exits(code: int | str | None) -> NoReturn:
            print("text")
            raise SystemExit(code)

        def verdict() -> int:
            print("text")
            return 1

        table: tuple[tuple[Callable[[], int], int, int], ...] = (
            (lambda: prints(0), 0, 141),
            (lambda: prints(1), 1, 141),
            (lambda: exits(0), 0, 141),
            (lambda: exits(None), 0, 141),
            (verdict, 1, 1),
        )
        for row, (command, read, unread) in enumerate(table):
            with self.subTest(row):
                self.assertEqual(self.code(command, nowhere), read)
                self.assertEqual(self.code(command, without_reader), unread)
        with self.assertRaises(SystemExit) as caught:
            self.code(lambda: exits(2), without_reader)
        self.assertEqual(caught.exception.code, 2)

    def test_another_pipe(self) -> None:
        """A pipe that breaks elsewhere is not taken for the reader's."""

        def breaks() -> int:
            raise BrokenPipeError

        self.assertRaises(BrokenPipeError, self.code, breaks, nowhere)
        self.assertEqual(self.code(breaks, without_reader), 141)


class OpenStreamsTest(unittest.TestCase):
    """``open_streams``, in a process that was started without streams."""

    def test_none(self) -> None:
        """All three are there afterwards, and lead nowhere."""
        readable, writable = os.pipe()
        code = (
            "import os, sys; from harness.system.standard_output import open_streams; open_streams()\n"
            "print('lost'); print('lost', file=sys.stderr)\n"
            f"os.write({writable}, sys.stdin.read().encode() + b'here')"
        )
        program = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", sys.executable, "-c", code]
        try:
            subprocess.run(program, cwd=ROOT, pass_fds=(writable,), check=True)
        finally:
            os.close(writable)
        with os.fdopen(readable, "rb") as told:
            self.assertEqual(told.read(), b"here")


if __name__ == "__main__":
    unittest.main()
