"""Tests a server whose output goes to a log, and that is killed where it stays stopped."""

from __future__ import annotations

import os
import signal
import socket
import sys
import unittest

from harness.system.logged_server import LOG_TAIL_BYTES, STOPPED_LOOKS, LoggedServer, new_log
from harness.system.server_process import ROOT, Parent, start_interpreter

# Seconds for a server to end; only a broken test waits this long.
LONG_S = 300.0


def prints(control: socket.socket, parent: Parent, text: str = "") -> None:
    """A server that prints, and ends when the other side has closed the socket."""
    sys.stderr.write(text)
    sys.stderr.flush()
    control.sendall(b".")
    control.recv(1)


class LoggedServerTest(unittest.TestCase):
    """A real server."""

    def start(self, text: str) -> LoggedServer:
        """A server that has printed the text."""
        log = new_log()
        pid, control = start_interpreter(
            __name__, "prints", [ROOT, *sys.path], arguments={"text": text}, stdout=log, stderr=log
        )
        server = LoggedServer(pid, control, log)
        self.addCleanup(server.close_log)
        self.addCleanup(control.close)
        self.addCleanup(server.wait, LONG_S)
        self.addCleanup(control.close)
        self.assertEqual(control.recv(1), b".")
        return server

    def test_how_it_ended(self) -> None:
        """The end of its log stands below how it ended."""
        for text, tail in (
            ("", ""),
            ("a\nb\n", "\na\nb"),
            ("x" * 2 * LOG_TAIL_BYTES, "\n" + "x" * LOG_TAIL_BYTES),
        ):
            with self.subTest(len(text)):
                server = self.start(text)
                server.control.close()
                server.wait(LONG_S)
                self.assertEqual(server.log_tail(), tail)
                self.assertEqual(server.end_text(), f"exit code 0{tail}")

    def test_looks(self) -> None:
        """It is killed at the last of the looks in a row at which it is stopped; one that goes on is not."""
        server = self.start("")
        for stopped in (STOPPED_LOOKS - 1, STOPPED_LOOKS):
            os.kill(server.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WNOWAIT)
            for _ in range(stopped):
                self.assertTrue(server.alive())
                server.look_for_stop()
            if server.alive():
                os.kill(server.pid, signal.SIGCONT)
                os.waitid(os.P_PID, server.pid, os.WCONTINUED | os.WNOWAIT)
                server.look_for_stop()
        self.assertFalse(server.alive())
        self.assertIn("because it was stopped", server.end_text())


if __name__ == "__main__":
    unittest.main()
