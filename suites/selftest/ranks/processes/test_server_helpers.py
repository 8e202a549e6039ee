"""Tests that helper processes of a module are told apart from what ranks leave, and that all of them end."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from suites.selftest.faults.base import ANNOUNCE
from suites.selftest.faults.processes import Announced

ROOT = str(Path(__file__).resolve().parents[4])
# Seconds for everything to be gone after the parent.
GONE_S = 30.0

# A module that only the server imports, because of a thread in the parent, with helpers of three kinds: one
# that ends when told, one that does not, and one that ignores signals until its pipe is closed.
FILE = """
    import multiprocessing, os, signal, subprocess, sys, threading, unittest
    from multiprocessing import shared_memory
    from harness import MultiProcessTestCase
    from suites.selftest.faults.base import announce

    if __name__ != "__main__":
        manager = multiprocessing.Manager()
        shared = manager.dict()
        stubborn = subprocess.Popen([sys.executable, "-c", "import signal, time; "
            "signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(3600)"],
            stdout=subprocess.PIPE)
        stubborn.stdout.read(1)
        segment = shared_memory.SharedMemory(create=True, size=64)
        announce(manager._process.pid, stubborn.pid)

    class Cases(MultiProcessTestCase):
        world_size = 2

        def test_first(self):
            shared[self.rank] = True

        def test_second(self):
            shared[2 + self.rank] = True
            os.kill(stubborn.pid, 0)

        def test_leaks(self):
            for _ in range(4):
                subprocess.Popen(["sleep", "3600"])

    if __name__ == "__main__":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        unittest.main(verbosity=2)
"""


class HelpersTest(unittest.TestCase):
    """Three tests in one process, on one server."""

    def test_helpers(self) -> None:
        """Every test finds the helpers, only real leaks are reported, and the helpers end with the server."""
        directory = tempfile.mkdtemp(prefix="selftest-")
        self.addCleanup(shutil.rmtree, directory)
        file = Path(directory, "helped.py")
        file.write_text(textwrap.dedent(FILE))
        segments = set(os.listdir("/dev/shm"))
        with Announced(directory) as announced:
            with subprocess.Popen(
                [sys.executable, "-W", "always", str(file)],
                env={
                    **os.environ,
                    "PYTHONPATH": ROOT,
                    "HARNESS_LAUNCHER": "forkserver",
                    "HARNESS_STRICT": "0",
                    ANNOUNCE: announced.path,
                },
                stderr=subprocess.PIPE,
                text=True,
            ) as process:
                announced.wait_for(2)
                _, text = process.communicate()
            self.assertEqual(announced.survivors(GONE_S), [])
        self.assertEqual(process.returncode, 0, text)
        self.assertIn("Ran 3 tests", text)
        self.assertEqual(len(re.findall(r"process \d+: ", text)), 8, text)
        self.assertEqual(len(re.findall(r"process \d+: sleep 3600", text)), 8, text)
        self.assertEqual(set(os.listdir("/dev/shm")) - segments, set())


if __name__ == "__main__":
    unittest.main()
