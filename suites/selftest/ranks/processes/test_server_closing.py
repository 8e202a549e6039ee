"""Tests that a server which is dismissed ends soon, also while it imports or while its ranks end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import textwrap
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from harness.protocol import Signal, encode
from harness.ranks.processes import server
from harness.ranks.processes.fork_server import fork_rank
from harness.ranks.processes.launched_ranks import LaunchedRanks
from harness.wire import send_frame
from suites.selftest.faults.base import ANNOUNCE
from suites.selftest.faults.clean import CleanTestCase
from suites.selftest.faults.processes import Announced

ROOT = str(Path(__file__).resolve().parents[4])
# Seconds for everything to be gone after the parent is: also of an import that cannot be broken off.
GONE_S = 30.0
# Seconds until a broken self-test gives up; no healthy one waits this long.
BROKEN_S = 300.0

# A test file whose import in a server never ends; {hang} is how. A thread of the parent prevents the server
# from being forked with the module already imported.
HANGS = """
    import os, threading, time
    from harness import MultiProcessTestCase
    from suites.selftest.faults.base import announce

    if __name__ != "__main__":
        announce(os.getpid())
        {hang}

    class Hangs(MultiProcessTestCase):
        world_size = 2
        def test(self):
            pass

    if __name__ == "__main__":
        import unittest
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        unittest.main()
"""


class InterruptedImportTest(CleanTestCase):
    """Ctrl-C while the server imports the test's module."""

    @contextlib.contextmanager
    def importing(self, announced: Announced, hang: str) -> Iterator[subprocess.Popen[str]]:
        """Yields a run in its own process group once its server has reached the point where the
        import hangs.
        """
        file = Path(self.temporary, "hangs.py")
        file.write_text(textwrap.dedent(HANGS).format(hang=hang))
        self.addCleanup(file.unlink)
        with subprocess.Popen(
            [sys.executable, str(file)],
            env={
                **os.environ,
                "PYTHONPATH": ROOT,
                "HARNESS_LAUNCHER": "forkserver",
                ANNOUNCE: announced.path,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                announced.wait_for(1)
                yield process
            finally:
                process.kill()

    def ends(self, hang: str) -> None:
        """Checks that SIGINT ends the parent and its server, and that no file of theirs is left."""
        with Announced(self.temporary) as announced, self.importing(announced, hang) as process:
            os.killpg(process.pid, signal.SIGINT)
            text, _ = process.communicate(timeout=BROKEN_S)
            self.assertEqual(announced.survivors(GONE_S), [])
        self.assertEqual(process.returncode, -signal.SIGINT, text)

    def test_import_that_sleeps(self) -> None:
        """An import that sleeps is interrupted by a signal."""
        self.ends("time.sleep(3600)")

    def test_import_that_does_not_let_go(self) -> None:
        """A server whose import ignores SIGTERM is killed."""
        self.ends(
            "signal = __import__('signal'); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
        )


class StaleEventTest(CleanTestCase):
    """Events that are out of date by the time the server handles them."""

    def test_word_and_end_at_once(self) -> None:
        """The server copes with a rank's end and a later message of the parent in one batch of events."""
        near, far = socket.socketpair()
        events, far_events = socket.socketpair()
        selector = selectors.DefaultSelector()
        self.addCleanup(selector.close)
        with mock.patch("selectors.DefaultSelector", return_value=selector):
            played = server.Server(far, fork_rank, preload=False)
        with near, far, events:
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            litter = LaunchedRanks(far_events)
            litter.add(0, pid)
            played.watch(litter)
            send_frame(events, encode(Signal(0, signal.SIGKILL)))
            played.step()
            self.assertEqual(far_events.fileno(), -1)


if __name__ == "__main__":
    unittest.main()
