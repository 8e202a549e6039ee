"""``LoggedServer``: a server for which others wait, and whose output goes to a log that tells of its end.

The zygote is held this way, by the controller and on other hosts (``agent.hosted_zygote``).
"""

from __future__ import annotations

import os
import socket
import tempfile
from typing import IO

from harness.system import posix, scratch
from harness.system.server_process import ServerProcess

# At how many looks in a row a process for which others wait has to be stopped until it is killed: a person
# who stops a process for a moment gets it back. Looks are counted, not seconds: Ctrl-Z may stop the process
# that looks, too.
STOPPED_LOOKS = 5
# Bytes from the end of the log that are quoted when the server has died.
LOG_TAIL_BYTES = 8 * 1024


def new_log() -> IO[bytes]:
    """A file without a name for the output of a server; UsageError where no temporary file can be made."""
    with scratch.advised():
        return tempfile.TemporaryFile(prefix="harness-server-")


class LoggedServer(ServerProcess):
    """Owns the server and its log."""

    def __init__(self, pid: int, control: socket.socket, log: IO[bytes]) -> None:
        super().__init__(pid, control)
        self._log = log
        self._stopped_looks = 0

    def look_for_stop(self) -> None:
        """Looks whether the server is stopped, and kills it where it was at the last looks too."""
        self._stopped_looks = self._stopped_looks + 1 if self.alive() and posix.is_stopped(self.pid) else 0
        if self._stopped_looks >= STOPPED_LOOKS:
            self.end_if_stopped()

    def log_tail(self) -> str:
        """The end of the log, on lines of its own; "" where there is nothing in it."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - LOG_TAIL_BYTES))
        text = self._log.read().decode(errors="backslashreplace").strip()
        return f"\n{text}" if text else ""

    def end_text(self) -> str:
        """How the server ended, and the end of its log; waits for its end."""
        return f"{self.exit_text()}{self.log_tail()}"

    def close_log(self) -> None:
        """Closes the log, which is gone then."""
        self._log.close()
