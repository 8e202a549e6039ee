"""Tests which threads do not hinder a fork: those of a known library, and only while they wait."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
import types
import unittest
from pathlib import Path

from harness.system import waiting_threads

ROOT = str(Path(__file__).resolve().parents[3])
# What a process prints of itself that has the server of pytest-rerunfailures.
BESIDE_RERUNFAILURES = """
import os, time, warnings
from harness.system import fork_safety, posix, waiting_threads
from pytest_rerunfailures import ServerStatusDB
server = ServerStatusDB()
while not waiting_threads.count():
    time.sleep(0.001)
warnings.simplefilter("error")
print(posix.os_threads(), fork_safety.is_clean())
with fork_safety.without_fork_warning():
    pid = os.fork()
if pid == 0:
    os._exit(posix.os_threads() + 10 * waiting_threads.count())
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
THREADS = """
def run_server(listener, end):
    listener.accept()[0].close()

def run_connection(listener, end):
    listener.accept()[0].close()

class Busy:
    def run_server(self, listener, end):
        end.wait()
"""


class WaitingThreadsTest(unittest.TestCase):
    """A process with such a thread, and threads that are like one."""

    def test_rerunfailures(self) -> None:
        """pytest-rerunfailures' server hinders no fork, which is without it and says nothing."""
        done = subprocess.run(
            [sys.executable, "-c", BESIDE_RERUNFAILURES],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        self.assertEqual(done.stdout.split(), ["2", "True", "1"])

    def count(self, module: str, function: str, *, stands_in: str) -> int:
        """How many threads wait beside one that runs a function of ``THREADS``, in a module of that name."""
        home = types.ModuleType(module)
        exec(THREADS, vars(home))
        target = getattr(home, function) if function != "Busy" else home.Busy().run_server
        end = threading.Event()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=target, args=(listener, end))
            thread.start()
            try:
                while sys._current_frames()[thread.ident or 0].f_code.co_name != stands_in:
                    time.sleep(0.001)
                return waiting_threads.count()
            finally:
                end.set()
                socket.create_connection(listener.getsockname()).close()
                thread.join()

    def test_by_where_they_stand(self) -> None:
        """One that does something else, or that another library has, hinders a fork."""
        table = (
            ("pytest_rerunfailures", "run_server", "accept", 1),
            ("pytest_rerunfailures", "run_connection", "accept", 0),
            ("another_library", "run_server", "accept", 0),
            ("pytest_rerunfailures", "Busy", "wait", 0),
        )
        before = waiting_threads.count()
        for module, function, stands_in, counted in table:
            with self.subTest(f"{module}.{function}"):
                self.assertEqual(self.count(module, function, stands_in=stands_in) - before, counted)


if __name__ == "__main__":
    unittest.main()
