"""``Loop`` and ``BufferedWriter``: wait for many descriptors at once, write to them without waiting."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable

Callback = Callable[[], object]


class Loop:
    """Calls what is to be done when a descriptor can be read or written. Owns the selector alone."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._callbacks: dict[int, dict[int, Callback]] = {}

    def on_read(self, fd: int, callback: Callback) -> None:
        """Calls ``callback`` whenever the descriptor can be read, or is at its end."""
        self._set(fd, selectors.EVENT_READ, callback)

    def on_write(self, fd: int, callback: Callback) -> None:
        """Calls ``callback`` whenever the descriptor can be written."""
        self._set(fd, selectors.EVENT_WRITE, callback)

    def no_read(self, fd: int) -> None:
        """Takes ``on_read`` back; nothing where it was not called."""
        self._set(fd, selectors.EVENT_READ, None)

    def no_write(self, fd: int) -> None:
        """Takes ``on_write`` back; nothing where it was not called."""
        self._set(fd, selectors.EVENT_WRITE, None)

    def forget(self, fd: int) -> None:
        """Takes all back that concerns a descriptor; to be called before it is closed."""
        if self._callbacks.pop(fd, None):
            self._selector.unregister(fd)

    def _set(self, fd: int, event: int, callback: Callback | None) -> None:
        callbacks = self._callbacks.setdefault(fd, {})
        before = sum(callbacks)
        callbacks.pop(event, None)
        if callback is not None:
            callbacks[event] = callback
        now = sum(callbacks)
        if not now:
            del self._callbacks[fd]
            if before:
                self._selector.unregister(fd)
        elif not before:
            self._selector.register(fd, now)
        elif now != before:
            self._selector.modify(fd, now)

    def step(self, timeout_s: float | None) -> None:
        """Waits, at most ``timeout_s`` seconds, and does what is to be done."""
        for key, events in self._selector.select(timeout_s):
            for event in (selectors.EVENT_READ, selectors.EVENT_WRITE):
                callback = self._callbacks.get(key.fd, {}).get(event) if events & event else None
                if callback is not None:
                    callback()

    def close(self) -> None:
        """Closes the selector."""
        self._selector.close()


class BufferedWriter:
    """Bytes on their way to a descriptor, that somebody else owns; ``finish`` is called when all are written.

    Where the reader has gone, they are dropped.
    """

    def __init__(self, loop: Loop, fd: int, finish: Callback) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self._fd = fd
        self._finish = finish
        self._data = bytearray()
        self._broken = self._ending = self.ended = False
        self.on_flush: Callback | None = None

    @property
    def waiting(self) -> int:
        """How many bytes are not yet written."""
        return len(self._data)

    def write(self, data: bytes) -> None:
        """Writes as much as possible now, and the rest later."""
        if self._broken or self._ending:
            return
        was_waiting = bool(self._data)
        self._data += data
        if not was_waiting:
            self._write_some()
            if self._data:
                self._loop.on_write(self._fd, self._go_on)

    def end(self) -> None:
        """Writes no more than what waits already, and then finishes."""
        self._ending = True
        self._finish_if_done()

    def drop(self) -> None:
        """Drops what waits, and finishes."""
        if not self.ended:
            self._loop.no_write(self._fd)
            self._data.clear()
            self.end()

    def _go_on(self) -> None:
        self._write_some()
        if not self._data:
            self._loop.no_write(self._fd)
            self._finish_if_done()
        if self.on_flush is not None:
            self.on_flush()

    def _write_some(self) -> None:
        try:
            while self._data:
                del self._data[: os.write(self._fd, self._data)]
        except BlockingIOError:
            return
        except OSError:  # its reader is gone
            self._broken = True
            self._data.clear()

    def _finish_if_done(self) -> None:
        if self._ending and not self._data and not self.ended:
            self.ended = True
            self._finish()
