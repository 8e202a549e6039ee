"""Tests that an editor attaches to a rank by debugpy, as docs/running.rst says: a client of its protocol."""

from __future__ import annotations

import importlib.util
import json
import select
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from suites.selftest.runner.runs import PATIENCE_S, environ

TREE = Path(__file__).resolve().parents[3]
DEBUGGED = """
    import os, unittest
    import torch, torch.distributed as dist
    from harness import DistributedTestBase, timeout

    class T(DistributedTestBase):
        world_size = 2

        @timeout(3600)
        def test_sum(self):
            self.create_pg("cpu")
            tensor = torch.tensor([self.rank + 1.0])
            if self.rank == 1:
                import debugpy
                address = debugpy.listen(("127.0.0.1", 0))
                with open("port.new", "w") as stream:
                    stream.write(str(address[1]))
                os.rename("port.new", "port")
                debugpy.wait_for_client()
                debugpy.breakpoint()
            dist.all_reduce(tensor)
            self.assertEqual(tensor.item(), 3.0)
    """


class Editor:
    """A client of the Debug Adapter Protocol: requests, and what the adapter says of them."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._stream = self._socket.makefile("rb")
        self._sent = 0

    def close(self) -> None:
        """Closes the connection to the adapter."""
        self._stream.close()
        self._socket.close()

    def send(self, command: str, **arguments: Any) -> int:
        """Sends a request and returns its number."""
        self._sent += 1
        request = {"seq": self._sent, "type": "request", "command": command, "arguments": arguments}
        data = json.dumps(request).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
        return self._sent

    def ask(self, command: str, **arguments: Any) -> Any:
        """Sends a request and returns the body of its response; AssertionError where it is refused."""
        number = self.send(command, **arguments)
        answer = self.read(lambda message: message.get("request_seq") == number)
        if not answer["success"]:
            raise AssertionError(answer)
        return answer.get("body")

    def read_event(self, name: str) -> Any:
        """The body of the next event of that name."""
        return self.read(lambda message: message.get("event") == name).get("body")

    def read(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next message that is wanted; the ones before it are dropped."""
        while True:
            length = 0
            while line := self._stream.readline().strip():
                name, _, value = line.partition(b":")
                length = int(value) if name == b"Content-Length" else length
            message: dict[str, Any] = json.loads(self._stream.read(length))
            if wanted(message):
                return message


@unittest.skipUnless(importlib.util.find_spec("debugpy"), "debugpy is not installed; requirements.txt has it")
class AttachTest(unittest.TestCase):
    """A rank that waits for an editor."""

    def test_attach(self) -> None:
        """The editor stops in the rank, evaluates in its frame, and lets it go on; the test passes."""
        directory = self.directory()
        (directory / "test_debugged.py").write_text(textwrap.dedent(DEBUGGED), encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", "unittest", "test_debugged"],
            cwd=directory,
            env=environ(directory, PYTHONPATH=str(TREE)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        editor = Editor(self.port(directory, process))
        self.addCleanup(editor.close)
        editor.ask("initialize", adapterID="debugpy", pathFormat="path")
        editor.send("attach", justMyCode=False)
        editor.read_event("initialized")
        editor.ask("configurationDone")
        thread = editor.read_event("stopped")["threadId"]
        frame = editor.ask("stackTrace", threadId=thread, levels=1)["stackFrames"][0]
        self.assertEqual(
            (frame["name"], Path(frame["source"]["path"]).name), ("test_sum", "test_debugged.py")
        )
        value = editor.ask("evaluate", expression="(self.rank, tensor.item())", frameId=frame["id"])
        self.assertEqual(value["result"], "(1, 2.0)")
        editor.ask("continue", threadId=thread)
        said, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 0, said)

    def directory(self) -> Path:
        """A directory that is removed after the test."""
        temporary = tempfile.TemporaryDirectory(prefix="harness-debugpy-")
        self.addCleanup(temporary.cleanup)
        return Path(temporary.name).resolve()

    def port(self, directory: Path, process: subprocess.Popen[str]) -> int:
        """The port at which the rank listens; AssertionError where the test ends before."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and process.poll() is None:
            if (directory / "port").exists():
                return int((directory / "port").read_text())
            select.select([], [], [], 0.05)
        raise AssertionError(
            f"nobody listens: {process.communicate()[0] if process.poll() is not None else ''}"
        )


if __name__ == "__main__":
    unittest.main()
