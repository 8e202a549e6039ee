"""``FirstChild``: a fork of the server in place of the first interpreter that a command starts."""

from __future__ import annotations

import atexit
import fcntl
import inspect
import json
import os
import socket
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from .popen import is_started, original_execution, words_of
from .requests import HEAD


class FirstChild:
    """A fork that waits, and becomes the first interpreter that a command starts by ``subprocess``."""

    def __init__(self) -> None:
        self._started = dict(os.environ)
        self._execute = original_execution()
        self._near, self._far = socket.socketpair()
        self._pid = os.fork()

    def given(self) -> dict[str, Any] | None:
        """In the fork: what to run, once it is asked for. None in the command, which can ask from then on."""
        if self._pid == 0:
            self._near.close()
            return self._wait()
        self._far.close()
        atexit.register(self._dismiss)
        subprocess.Popen._execute_child = self._execute_child()  # type: ignore[attr-defined]
        return None

    def _execute_child(self) -> Callable[..., None]:
        first, signature = self, inspect.signature(self._execute)

        def execute_child(popen: Any, *given: Any) -> None:
            asked = signature.bind(popen, *given).arguments
            words = words_of(asked, first._started) if first._pid else None
            if words is None or "-u" in asked["args"] or not asked["close_fds"]:
                first._execute(popen, *given)
                return
            first._ask(asked, words)
            pid, first._pid = first._pid, 0
            is_started(popen, pid, asked)

        vars(execute_child)["exec"] = self._execute
        return execute_child

    def _ask(self, asked: Mapping[str, Any], words: list[str]) -> None:
        ends = [asked[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        streams = [number if end == -1 else end for number, end in enumerate(ends)]
        request = {
            "arguments": words,
            "cwd": os.getcwd() if asked["cwd"] is None else os.fspath(asked["cwd"]),
            "environ": {**(os.environ if asked["env"] is None else asked["env"])},
            "numbers": [0, 1, 2, *asked["pass_fds"]],
            "session": asked["start_new_session"],
            "group": asked.get("process_group", -1),
        }
        text = json.dumps(request).encode()
        with self._near:
            self._near.sendall(len(text).to_bytes(HEAD, "big"))
            socket.send_fds(self._near, [text[:1]], [*streams, *asked["pass_fds"]])
            self._near.sendall(text[1:])

    def _wait(self) -> dict[str, Any]:
        head = self._far.recv(HEAD, socket.MSG_WAITALL)
        if not head:  # the command has ended without
            os._exit(0)
        size = int.from_bytes(head, "big")
        text, descriptors, _, _ = socket.recv_fds(self._far, 1, 64)
        text += self._far.recv(size - 1, socket.MSG_WAITALL)
        self._far.close()
        request: dict[str, Any] = json.loads(text)
        numbers = request["numbers"]
        high = [fcntl.fcntl(each, fcntl.F_DUPFD, max(numbers) + 1) for each in descriptors]
        for number, source in zip(numbers, high, strict=True):
            os.dup2(source, number)
        for number in {*descriptors, *high}.difference(numbers):
            os.close(number)
        if request["session"]:
            os.setsid()
        elif request["group"] >= 0:
            os.setpgid(0, request["group"])
        return request

    def _dismiss(self) -> None:
        """Ends a fork that was not needed."""
        if self._pid:
            self._near.close()
            os.waitpid(self._pid, 0)
