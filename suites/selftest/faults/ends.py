"""Ranks that end in every way but the right one. Rank 0 passes, rank 1 does what the method's name says."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from suites.selftest.faults.base import FaultyCase


class Unheard(BaseException):
    """An exception that nobody's ``except Exception`` catches."""


class Ends(FaultyCase):
    """One end a method."""

    def test_passes(self) -> None:
        """Nothing wrong here."""

    def test_os_exit_0(self) -> None:
        """Success, says the exit code."""
        if self.rank == 1:
            os._exit(0)

    def test_os_exit_3(self) -> None:
        """Failure, says the exit code."""
        if self.rank == 1:
            os._exit(3)

    def test_every_rank_exits_0(self) -> None:
        """Nobody is left to say anything."""
        os._exit(0)

    def test_sys_exit_0(self) -> None:
        """A SystemExit that says success."""
        if self.rank == 1:
            sys.exit(0)

    def test_sys_exit_7(self) -> None:
        """A SystemExit that says failure."""
        if self.rank == 1:
            sys.exit(7)

    def test_sys_exit_words(self) -> None:
        """A SystemExit with a message, which Python ends with code 1."""
        if self.rank == 1:
            sys.exit("no more of this")

    def test_sigsegv(self) -> None:
        """Sent from outside, as it were."""
        if self.rank == 1:
            os.kill(os.getpid(), signal.SIGSEGV)

    def test_sigkill(self) -> None:
        """What the kernel does to a process that takes too much memory."""
        if self.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    def test_sigabrt(self) -> None:
        """What a failed assertion in C does."""
        if self.rank == 1:
            os.abort()

    def test_null_dereference(self) -> None:
        """A real one, in C."""
        if self.rank == 1:
            ctypes.string_at(0)

    def test_base_exception(self) -> None:
        """Passes by every ``except Exception``."""
        if self.rank == 1:
            raise Unheard("straight through")

    def test_keyboard_interrupt(self) -> None:
        """Nobody pressed a key: the test raised it."""
        if self.rank == 1:
            raise KeyboardInterrupt

    def test_sigint(self) -> None:
        """A real one, to this rank alone."""
        if self.rank == 1:
            os.kill(os.getpid(), signal.SIGINT)

    def test_crash_after_report(self) -> None:
        """Fine until the interpreter's own end."""
        if self.rank == 1:
            import atexit

            atexit.register(os._exit, 9)
