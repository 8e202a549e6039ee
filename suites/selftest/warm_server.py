"""The interpreter of ``warm_python.py``: a script that imports torch, and then forks once for each command.

It imports nothing of the tree, so that each fork imports harness for itself. A fork leaves ``serve`` and is
then what a new interpreter would be that has imported torch: the command runs as ``__main__``, and the
process ends by the end of this script, with the exit code, the threads and the ``atexit`` functions of any.
It only does not take torch apart then, which takes an interpreter half a second.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import importlib.machinery
import io
import json
import os
import runpy
import socket
import sys
import types
from typing import Any

_HEAD = 8  # bytes of a request's length before it


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Forks for each request until the client is gone; returns it in a fork, and None in the server."""
    while head := control.recv(_HEAD, socket.MSG_WAITALL):
        size = int.from_bytes(head, "big")
        request, descriptors, _, _ = socket.recv_fds(control, size, 3, socket.MSG_WAITALL)
        pid = os.fork()
        if pid == 0:
            control.close()
            for standard, given in enumerate(descriptors):
                os.dup2(given, standard)
                os.close(given)
            found: dict[str, Any] = json.loads(request)
            return found
        for given in descriptors:
            os.close(given)
        control.sendall(pid.to_bytes(_HEAD, "big"))
        _, status = os.waitpid(pid, 0)
        control.sendall(os.waitstatus_to_exitcode(status).to_bytes(_HEAD, "big", signed=True))
    return None


def become(request: dict[str, Any]) -> None:
    """Runs a command line as the interpreter does with ``-c``, ``-m`` or a script."""
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["cwd"])
    words = request["arguments"]
    sys.orig_argv = [sys.executable, *words]
    added = request["environ"].get("PYTHONPATH")
    # The interpreter makes these absolute by the directory in which it starts.
    paths = [os.path.abspath(each) for each in added.split(os.pathsep)] if added else []
    sys.path[:] = [*paths, *sys.path[1:]]
    importlib.invalidate_caches()
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    vars(main)["__builtins__"] = __builtins__
    main.__loader__ = importlib.machinery.BuiltinImporter
    if words[0] == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv[:] = ["-m", *words[2:]]
        runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]  # what -m calls
        return
    if words[0] == "-c":
        sys.path.insert(0, "")
        sys.argv[:] = ["-c", *words[2:]]
        source, name = words[1], "<string>"
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
        sys.argv[:] = words
        with io.open_code(words[0]) as file:
            source = file.read()
        main.__file__ = name = os.path.abspath(words[0])
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", name)
    exec(compile(source, name, "exec", dont_inherit=True), main.__dict__)


class Leaving:
    """The last ``atexit`` function of a fork: it ends the process, where the command has ended by itself."""

    def __init__(self) -> None:
        self.code: int | None = None

    def __call__(self) -> None:
        """Flushes what the interpreter would flush, and leaves; what raises is left to the interpreter."""
        if self.code is not None:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None and not stream.closed:
                    stream.flush()
            os._exit(self.code)

    def run(self, request: dict[str, Any]) -> None:
        """Runs a command. One that raises ends as the interpreter ends it."""
        try:
            become(request)
        except SystemExit as end:
            if end.code is None or isinstance(end.code, int):
                self.code = end.code or 0
            raise
        self.code = 0


if __name__ == "__main__":
    leaving = Leaving()
    atexit.register(leaving)  # before torch, and so after all others
    gc.disable()
    for name in ("torch", *sys.argv[2:]):
        importlib.import_module(name)
    gc.freeze()  # else each fork would look through all of torch at its end
    gc.enable()
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    if asked is not None:
        leaving.run(asked)
