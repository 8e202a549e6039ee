"""Tests the loop over many descriptors, and writers that write without waiting."""

from __future__ import annotations

import functools
import os
import unittest

from harness.hosts.loop import BufferedWriter, Loop


class BufferedWriterTest(unittest.TestCase):
    """A pipe that is written through a buffer, and read by the test."""

    def setUp(self) -> None:
        self.loop = Loop()
        self.addCleanup(self.loop.close)
        self.reader, self.writer = os.pipe()
        self.ended: list[str] = []
        self.buffer = BufferedWriter(self.loop, self.writer, self.finish)
        self.addCleanup(lambda: os.close(self.reader))

    def finish(self) -> None:
        """Closes the pipe, as a buffer's owner does."""
        self.ended.append("ended")
        os.close(self.writer)

    def test_more_than_fits(self) -> None:
        """What does not fit waits until there is room, and then comes whole; the end comes behind it."""
        data = os.urandom(1 << 20)
        self.buffer.write(data)
        self.assertGreater(self.buffer.waiting, 0)
        flushed: list[int] = []
        self.buffer.on_flush = lambda: flushed.append(self.buffer.waiting)
        self.buffer.end()
        self.assertEqual(self.ended, [])
        got = b""
        while not self.ended:
            got += os.read(self.reader, 1 << 16)
            self.loop.step(0)
        while piece := os.read(self.reader, 1 << 16):
            got += piece
        self.assertEqual(got, data)
        self.assertEqual(flushed[-1], 0)

    def test_nobody_reads(self) -> None:
        """Where the reader has gone the rest is dropped, and nothing is raised."""
        self.buffer.write(bytes(1 << 20))
        os.close(self.reader)
        self.loop.step(None)
        self.assertEqual(self.buffer.waiting, 0)
        self.buffer.write(b"more")
        self.buffer.end()
        self.assertEqual(self.ended, ["ended"])
        self.reader = os.open(os.devnull, os.O_RDONLY)

    def test_drop(self) -> None:
        """What waits can be dropped, and then the writer has ended; once."""
        self.buffer.write(bytes(1 << 20))
        self.buffer.drop()
        self.buffer.drop()
        self.buffer.end()
        self.assertEqual((self.buffer.waiting, self.ended), (0, ["ended"]))


class LoopTest(unittest.TestCase):
    """Which callbacks are done."""

    def test_read_and_write(self) -> None:
        """A descriptor can have both callbacks, and each can be taken back."""
        loop = Loop()
        self.addCleanup(loop.close)
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        done: list[str] = []
        loop.on_read(reader, lambda: done.append("read"))
        loop.on_write(writer, lambda: done.append("write"))
        loop.step(0)
        self.assertEqual(done, ["write"])
        os.write(writer, b"x")
        loop.no_write(writer)
        loop.no_write(writer)
        loop.step(0)
        self.assertEqual(done, ["write", "read"])
        loop.forget(reader)
        loop.forget(reader)
        loop.step(0)
        self.assertEqual(done, ["write", "read"])

    def test_forgotten_meanwhile(self) -> None:
        """A callback that another one of the same step has taken back is not done."""
        loop = Loop()
        self.addCleanup(loop.close)
        pipes = [os.pipe() for _ in range(2)]
        for fd in (fd for pipe in pipes for fd in pipe):
            self.addCleanup(os.close, fd)
        done: list[int] = []

        def callback(number: int, other: int) -> None:
            done.append(number)
            loop.forget(other)

        for number, (reader, writer) in enumerate(pipes):
            other = pipes[1 - number][0]
            loop.on_read(reader, functools.partial(callback, number, other))
            os.write(writer, b"x")
        loop.step(0)
        self.assertEqual(len(done), 1)


if __name__ == "__main__":
    unittest.main()
