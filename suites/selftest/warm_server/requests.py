"""``serve``: takes requests for commands from a socket, and forks once for each."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
from typing import Any

HEAD = 8  # bytes of a number on the socket, such as the length of a request before it


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Forks for each request until the client is gone; returns it in a fork, and None in the server.

    With a request come the standard streams and a socket on which the client is told the process id and, when
    the process has ended, its exit code.
    """
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), *running], [], [])
        for ended in running.keys() & set(ready):
            pid, answers = running.pop(ended)
            os.close(ended)
            _, status = os.waitpid(pid, 0)
            with answers, contextlib.suppress(BrokenPipeError):
                answers.sendall(os.waitstatus_to_exitcode(status).to_bytes(HEAD, "big", signed=True))
        if control.fileno() not in ready:
            continue
        if not (head := control.recv(HEAD, socket.MSG_WAITALL)):
            return None
        size = int.from_bytes(head, "big")
        request, (*streams, told), _, _ = socket.recv_fds(control, size, 4, socket.MSG_WAITALL)
        answers = socket.socket(fileno=told)
        pid = os.fork()
        if pid == 0:
            control.close()
            answers.close()
            for number, (_, other) in running.items():
                os.close(number)
                other.close()
            for standard, given in enumerate(streams):
                os.dup2(given, standard)
                os.close(given)
            found: dict[str, Any] = json.loads(request)
            return found
        for given in streams:
            os.close(given)
        answers.sendall(pid.to_bytes(HEAD, "big"))
        running[os.pidfd_open(pid)] = pid, answers
