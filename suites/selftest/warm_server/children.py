"""``Children``: forks of a command in place of the interpreters that it starts."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import inspect
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from .command import ends_with
from .descriptors import open_streams, take_descriptors
from .popen import is_started, original_execution, words_of


class Children:
    """Forks in place of the new interpreters that a command starts by ``subprocess``."""

    def __init__(self) -> None:
        """Notes what a new interpreter has, before the command runs."""
        self._started = dict(os.environ)
        self._packages = {name.partition(".")[0] for name in sys.modules} | sys.stdlib_module_names
        self._filters = warnings.filters[:]
        self._hooks = (sys.excepthook, threading.excepthook, warnings.showwarning)
        self._finders = sys.meta_path[:], sys.path_hooks[:]
        self._execute = original_execution()
        self._signature = inspect.signature(self._execute)
        self._kept: list[Any] = []

    def take_over(self) -> None:
        """Makes ``subprocess.Popen`` start them."""
        children = self

        def execute_child(popen: Any, *given: Any) -> None:
            asked = children._signature.bind(popen, *given).arguments
            words = words_of(asked, children._started)
            if words is None or not _forks_safely():
                children._execute(popen, *given)
                return
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns beside threads
                pid = os.fork()
            if pid == 0:
                children._become(asked, words)
            is_started(popen, pid, asked)

        vars(execute_child)["exec"] = self._execute
        subprocess.Popen._execute_child = execute_child  # type: ignore[attr-defined]  # what all its ways call

    def _become(self, asked: Mapping[str, Any], words: list[str]) -> NoReturn:
        """Makes this fork what a new interpreter is, runs the command and leaves.

        It runs on the frames of the process that it was: all that these hold stays as it is, and is never
        closed.
        """
        code = 1
        try:
            self._kept.append((dict(sys.modules), sys.stdin, sys.stdout, sys.stderr))
            gc.freeze()
            gc.enable()
            self._forget()
            take_descriptors(asked)
            if asked["start_new_session"]:
                os.setsid()
            elif asked.get("process_group", -1) >= 0:
                os.setpgid(0, asked["process_group"])
            environ = {**(os.environ if asked["env"] is None else asked["env"])}
            open_streams(bool(environ.get("PYTHONUNBUFFERED")) or "-u" in [*asked["args"]][: -len(words)])
            cwd = os.getcwd() if asked["cwd"] is None else os.fspath(asked["cwd"])
            code = ends_with({"arguments": words, "cwd": cwd, "environ": environ})
        except BaseException:  # noqa: BLE001 - no frame of the process that it was may see it
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)

    def _forget(self) -> None:
        """Gives up what the command has imported and set."""
        for name in [*sys.modules]:
            if name.partition(".")[0] not in self._packages:
                del sys.modules[name]
        sys.meta_path[:], sys.path_hooks[:] = self._finders
        sys.path_importer_cache.clear()
        sys.excepthook, threading.excepthook, warnings.showwarning = self._hooks
        warnings.filters[:] = self._filters  # type: ignore[index]  # a list, which typeshed calls a sequence
        warnings._filters_mutated() if hasattr(warnings, "_filters_mutated") else None
        atexit._clear()
        random.seed()
        tempfile.tempdir = None
        sys.settrace(None)
        sys.setprofile(None)
        signal.set_wakeup_fd(-1)
        faulthandler.disable()
        faulthandler.cancel_dump_traceback_later()
        for number in signal.valid_signals():
            with contextlib.suppress(ValueError, OSError, RuntimeError):
                faulthandler.unregister(number)
            if callable(signal.getsignal(number)):
                signal.signal(
                    number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
                )


def _forks_safely() -> bool:
    """Whether this process has no threads but Python's and those of a TCPStore."""
    names = [Path(f"/proc/self/task/{each}/comm").read_text() for each in os.listdir("/proc/self/task")]
    return len([name for name in names if not name.startswith("pt_tcpstore")]) == len(sys._current_frames())
