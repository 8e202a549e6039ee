"""A case that shows a rank's environment, directory, path, arguments, descriptors, streams and signals."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from typing import Any

from suites.selftest.faults.base import FaultyCase


class Surroundings(FaultyCase):
    """Tests that end alike on all ranks; ``test_look`` prints what a rank sees as one line of JSON."""

    def test_look(self) -> None:
        """Prints everything that the parent decides."""
        print(json.dumps(surroundings()))

    def test_streams(self) -> None:
        """Standard input is at its end and comes from /dev/null."""
        self.assertEqual(os.readlink("/proc/self/fd/0"), "/dev/null")
        self.assertEqual(os.read(0, 1), b"")
        self.assertEqual(sys.stdin.read(), "")

    def test_input(self) -> None:
        """Reads from standard input, which must raise an error and not hang."""
        input("anybody there? ")

    def test_signals(self) -> None:
        """Signals are as in a new interpreter: none is blocked, and only SIGPIPE is ignored."""
        self.assertEqual(signal.pthread_sigmask(signal.SIG_BLOCK, []), set())
        self.assertEqual(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)
        self.assertEqual(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        self.assertEqual(signal.getsignal(signal.SIGCHLD), signal.SIG_DFL)
        self.assertEqual(signal.getsignal(signal.SIGPIPE), signal.SIG_IGN)

    def test_own_group(self) -> None:
        """Each rank leads its own process group, out of reach of the terminal's Ctrl-C."""
        self.assertEqual(os.getpgid(0), os.getpid())

    def test_collector(self) -> None:
        """The cyclic garbage collector is on."""
        import gc

        self.assertTrue(gc.isenabled())

    def test_atexit(self) -> None:
        """Prints the number of inherited exit handlers, and registers one that must run."""
        import atexit

        print(f"{atexit._ncallbacks()} from before")
        atexit.register(print, "ran at exit")


def surroundings() -> dict[str, Any]:
    """Returns what this process sees around it."""
    return {
        "environ": dict(os.environ),
        "cwd": os.getcwd(),
        "path": sys.path,
        "argv": sys.argv,
        "executable": sys.executable,
        "optimize": sys.flags.optimize,
        "temporary": tempfile.gettempdir(),
        "umask": _umask(),
        "descriptors": _descriptors(),
    }


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _descriptors() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    return found
