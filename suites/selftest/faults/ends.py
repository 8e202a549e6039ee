"""Ranks that end in every way but the right one: rank 0 passes, rank 1 ends as the method's name says."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from suites.selftest.faults.base import FaultyCase


class Unheard(BaseException):
    """An exception that no ``except Exception`` catches."""


class Ends(FaultyCase):
    """Has one method for each way to end."""

    def test_passes(self) -> None:
        """Passes on both ranks."""

    def test_os_exit_0(self) -> None:
        """Rank 1 leaves without an outcome, with the exit code of success."""
        if self.rank == 1:
            os._exit(0)

    def test_os_exit_3(self) -> None:
        """Rank 1 leaves without an outcome, with the exit code of a failure."""
        if self.rank == 1:
            os._exit(3)

    def test_every_rank_exits_0(self) -> None:
        """Every rank leaves without an outcome, with the exit code of success."""
        os._exit(0)

    def test_sys_exit_0(self) -> None:
        """Rank 1 raises a SystemExit that stands for success."""
        if self.rank == 1:
            sys.exit(0)

    def test_sys_exit_7(self) -> None:
        """Rank 1 raises a SystemExit that stands for failure."""
        if self.rank == 1:
            sys.exit(7)

    def test_sys_exit_words(self) -> None:
        """Rank 1 raises a SystemExit with a message, which Python turns into exit code 1."""
        if self.rank == 1:
            sys.exit("no more of this")

    def test_sigsegv(self) -> None:
        """Rank 1 sends itself SIGSEGV."""
        if self.rank == 1:
            os.kill(os.getpid(), signal.SIGSEGV)

    def test_sigkill(self) -> None:
        """Rank 1 is killed, as by a kernel that is short of memory."""
        if self.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    def test_sigabrt(self) -> None:
        """Rank 1 aborts, as by a failed assertion in C."""
        if self.rank == 1:
            os.abort()

    def test_null_dereference(self) -> None:
        """Rank 1 reads a null pointer in C."""
        if self.rank == 1:
            ctypes.string_at(0)

    def test_base_exception(self) -> None:
        """Rank 1 raises an exception that no ``except Exception`` catches."""
        if self.rank == 1:
            raise Unheard("straight through")

    def test_keyboard_interrupt(self) -> None:
        """Rank 1 raises KeyboardInterrupt although nobody pressed a key."""
        if self.rank == 1:
            raise KeyboardInterrupt

    def test_sigint(self) -> None:
        """Rank 1 alone gets a real SIGINT."""
        if self.rank == 1:
            os.kill(os.getpid(), signal.SIGINT)

    def test_crash_after_report(self) -> None:
        """Rank 1 passes, reports it, and then ends with code 9 in an exit handler."""
        if self.rank == 1:
            import atexit

            atexit.register(os._exit, 9)
