"""Runs a command line in this process as a new interpreter would, from its start to its end."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.machinery
import io
import os
import runpy
import sys
import threading
import types
from typing import Any

PATH = sys.path[1:]  # without the directory from which the server is started


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
    sys.path[:] = [*paths, *PATH]
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


def ends_with(request: dict[str, Any]) -> int:
    """Runs a command to its end, and returns its exit code."""
    code = 0
    try:
        become(request)
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:  # noqa: BLE001 - as the interpreter does at the end of __main__
        sys.excepthook(type(error), error, error.__traceback__)
        code = 130 if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter calls
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    return code & 0xFF
