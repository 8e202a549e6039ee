"""The standard streams of a command: that each is there, and what becomes of output that nobody reads.

A reader that has enough closes its end of the pipe (``| head``). Then a command that only shows something
ends without a word, as a tool does that SIGPIPE ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable

from harness.errors import HarnessError
from harness.system import posix


def open_streams() -> None:
    """Makes /dev/null those standard streams without which this process was started (``>&-``)."""
    posix.open_standard_descriptors()
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, mode, closefd=False))  # noqa: SIM115 - for the life of the process


def while_read(command: Callable[[], int], unread: int) -> int:
    """The exit code of ``command``; ``unread`` where it found that nobody reads what it prints.

    It finds out by BrokenPipeError, which is raised again where its cause is another pipe. After --help
    argparse raises SystemExit and says nothing of that, so it is asked here. What the streams still hold in
    the end and cannot be written is dropped.
    """
    try:
        return _code(command)
    except BrokenPipeError:
        if has_reader():
            raise
        return unread
    finally:
        drop_rest()


def _code(command: Callable[[], int]) -> int:
    try:
        return command()
    except SystemExit as ending:
        if ending.code:
            raise
        write_out()
        return 0


def has_reader() -> bool:
    """Whether nothing that is written to standard output or standard error is lost for want of a reader."""
    return all(map(_has_reader, _descriptors()))


def write_out(text: str = "") -> None:
    """Writes the text, and what standard output still holds.

    BrokenPipeError where nobody reads it any more, HarnessError where it cannot be written.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise HarnessError(f"standard output cannot be written: {error.strerror}") from error
    if not has_reader():  # what was written before may have been refused: argparse keeps that to itself
        raise BrokenPipeError


def drop_rest() -> None:
    """Drops what the standard streams hold and cannot be written.

    The interpreter's last flush would complain of it, and make the exit code 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # no reader, a full disk; closed
            with contextlib.suppress(OSError, ValueError):
                _discard(stream.fileno())


def _discard(fd: int) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, fd)
    os.close(null)


def _descriptors() -> list[int]:
    found = []
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # it is no file, or closed
            found.append(stream.fileno())
    return found


def _has_reader(fd: int) -> bool:
    """False for a pipe's end of which the other one is closed."""
    poll = select.poll()
    poll.register(fd, 0)  # POLLERR is told in any case
    return not any(events & select.POLLERR for _, events in poll.poll(0))
