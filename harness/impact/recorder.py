"""Notes in a process which files each test executes; in workers, ranks, and every Python that they start.

    r<path>   a function of the file ran        m<path>   the file's module or a class in it was executed

A file is noted at the first call into it, once for each test: by events of ``sys.monitoring`` from Python
3.12 on, each disabled once it has come; before that by a profile function. Modules that were imported while an
earlier test ran in the same process, or in the one that it was forked from, are noted for the later one too:
it may use them.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import sys
import threading
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from harness.impact.notes import Notes
from harness.impact.running_test import noted, running_test
from harness.settings import EnvVar

RAN, IMPORTED = b"r", b"m"
# The variable by which every Python that a test starts finds ``site/sitecustomize.py``.
_SITE = str(Path(__file__).resolve().parent / "site")
_ROOT = str(Path(__file__).resolve().parents[2])
# The file of the directory that lists below what files are noted.
_BELOW = "below"
_state: dict[str, _Recorder] = {}


class _Tracer(Protocol):
    def renew(self) -> None:
        """Has each file be noted once more."""


def environ_for(directory: Path, below: Iterable[Path]) -> dict[str, str]:
    """The variables by which workers note in a directory which files ``below`` others tests execute."""
    (directory / _BELOW).write_text("\n".join(map(str, below)), encoding="utf-8")
    path = os.pathsep.join(filter(None, (_SITE, _ROOT, os.environ.get("PYTHONPATH"))))
    return {EnvVar.EXECUTED: str(directory), EnvVar.RUNNING_TEST: "", "PYTHONPATH": path}


def start(environ: Mapping[str, str] = os.environ) -> None:
    """Begins to note in this process, where the environment asks for it and nothing does so already.

    What was imported before is noted as imported outside of tests.
    """
    directory = environ.get(EnvVar.EXECUTED)
    if directory and not _state and os.path.isdir(directory):
        below = Path(directory, _BELOW).read_text(encoding="utf-8").splitlines()
        _state["recorder"] = recorder = _Recorder(Notes(Path(directory)), below)
        recorder.start()


def renew() -> None:
    """To be called where another test begins in a process."""
    for recorder in _state.values():
        recorder.tracer.renew()


@contextlib.contextmanager
def during(name: str, instead: str = "") -> Iterator[None]:
    """What is executed while the context lasts is the test's, or the fixture's, of this name.

    ``instead`` is as in ``noted``.
    """
    renew()
    with noted(name, instead):
        yield
    renew()


class _Recorder:
    """Notes the files that a process executes, as its tracer tells it."""

    tracer: _Tracer

    def __init__(self, notes: Notes, below: Iterable[str]) -> None:
        self._notes = notes
        self._below = tuple(f"{directory}{os.sep}" for directory in below)
        self._imported: dict[bytes, None] = {}  # while a test ran

    def start(self) -> None:
        """Begins with this thread, and with all threads that are started from now on."""
        files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        names = sorted(name for name in files if isinstance(name, str) and self._is_noted(name))
        self._notes.add(b"", *(IMPORTED + os.fsencode(name) for name in names))
        self.tracer = _Monitoring(self) if sys.version_info >= (3, 12) else _Profile(self)
        os.register_at_fork(after_in_child=self.tracer.renew)

    def executed(self, code: types.CodeType) -> bool:
        """Notes the file of a code that begins to run; returns whether that is a function's."""
        function = bool(code.co_flags & inspect.CO_OPTIMIZED)
        if self._is_noted(code.co_filename):
            test, file = running_test(), os.fsencode(code.co_filename)
            if test and not self._notes.knows(test):
                self._notes.add(test, *self._imported)
            self._notes.add(test, (RAN if function else IMPORTED) + file)
            if test and not function:
                self._imported[IMPORTED + file] = None
        return function

    def _is_noted(self, file: str) -> bool:
        return file.endswith(".py") and file.startswith(self._below)


class _Monitoring:
    """Calls the recorder at the first start of each code, by ``sys.monitoring``."""

    # One of those that PEP 669 leaves to tools without a name of their own.
    TOOL = 4

    def __init__(self, recorder: _Recorder) -> None:
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]  # from 3.12 on
        disable = self._monitoring.DISABLE

        def began(code: types.CodeType, offset: int) -> Any:
            recorder.executed(code)
            return disable

        self._monitoring.use_tool_id(self.TOOL, "torch-harness: files that tests execute")
        event = self._monitoring.events.PY_START
        self._monitoring.register_callback(self.TOOL, event, began)
        self._monitoring.set_events(self.TOOL, event)

    def renew(self) -> None:
        """As of ``_Tracer``."""
        self._monitoring.restart_events()


class _Profile:
    """Calls the recorder at the first call into each file, by a profile function in every thread."""

    def __init__(self, recorder: _Recorder) -> None:
        self._files: set[str] = set()
        files, executed = self._files, recorder.executed

        def called(frame: types.FrameType, event: str, argument: object) -> None:
            if event == "call" and frame.f_code.co_filename not in files and executed(frame.f_code):
                files.add(frame.f_code.co_filename)

        self._called = called
        self._codes = [called.__code__, *_codes(_Recorder), *_codes(Notes), running_test.__code__]
        threading.setprofile(called)
        sys.setprofile(called)

    def renew(self) -> None:
        """As of ``_Tracer``; also goes on where a test has taken the profile function away."""
        self._files.clear()
        if sys.getprofile() is not self._called:
            sys.setprofile(self._called)
        if self._codes and "torch._dynamo" in sys.modules:  # it would compile what is called with a tensor
            skip: Any = importlib.import_module("torch._C._dynamo.eval_frame").skip_code
            while self._codes:
                skip(self._codes.pop())


def _codes(owner: type) -> list[types.CodeType]:
    return [value.__code__ for value in vars(owner).values() if isinstance(value, types.FunctionType)]
