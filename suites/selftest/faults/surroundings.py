"""What a rank sees around it: environment, directory, path, arguments, descriptors, streams, signals."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from typing import Any

from suites.selftest.faults.base import FaultyCase


class Surroundings(FaultyCase):
    """Each test fails or passes alike on all ranks, and prints what it saw as one line of JSON."""

    def test_look(self) -> None:
        """Prints everything that the parent decides."""
        print(json.dumps(surroundings()))

    def test_streams(self) -> None:
        """Standard input is at its end, output is not a terminal's."""
        self.assertEqual(os.readlink("/proc/self/fd/0"), "/dev/null")
        self.assertEqual(os.read(0, 1), b"")
        self.assertEqual(sys.stdin.read(), "")

    def test_input(self) -> None:
        """Asks a question that nobody answers: an error, no hang."""
        input("anybody there? ")

    def test_signals(self) -> None:
        """As a new interpreter has them: none blocked, none ignored that is not by default."""
        self.assertEqual(signal.pthread_sigmask(signal.SIG_BLOCK, []), set())
        self.assertEqual(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)
        self.assertEqual(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        self.assertEqual(signal.getsignal(signal.SIGCHLD), signal.SIG_DFL)
        self.assertEqual(signal.getsignal(signal.SIGPIPE), signal.SIG_IGN)

    def test_own_group(self) -> None:
        """Each rank leads its own process group, out of reach of the terminal's Ctrl-C."""
        self.assertEqual(os.getpgid(0), os.getpid())

    def test_collector(self) -> None:
        """The cyclic garbage collector works as anywhere else."""
        import gc

        self.assertTrue(gc.isenabled())

    def test_atexit(self) -> None:
        """What the parent registered does not run here; what the test registers does."""
        import atexit

        print(f"{atexit._ncallbacks()} from before")
        atexit.register(print, "ran at exit")


def surroundings() -> dict[str, Any]:
    """What this process sees."""
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
        except FileNotFoundError:  # the listing's own
            continue
    return found
