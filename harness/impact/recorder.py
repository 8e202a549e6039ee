"""Notes in a process which files each test executes; in workers, ranks, and every Python that they start.

A file is noted when a function of it is called for the first time in a test: by an event of
``sys.monitoring`` from Python 3.12 on, which is disabled once it has come; before that by a profile function.
What is executed while modules are imported is not noted: whether a test imports one depends on what ran in
its process before. A function that dynamo traces into another never runs: it is noted as it is traced
(``dynamo_tracing.py``).
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.impact import dynamo_tracing
from harness.impact.notes import Notes
from harness.impact.running_test import noted, running_test
from harness.settings import EnvVar

# The variable by which every Python that a test starts finds ``site/sitecustomize.py``.
_SITE = str(Path(__file__).resolve().parent / "site")
_ROOT = str(Path(__file__).resolve().parents[2])
# The file of the directory that lists below what files are noted.
_BELOW = "below"
# The file of Python's functions that import modules.
_IMPORT = "<frozen importlib._bootstrap>"
# What begins to note each file once more in this process; empty where nothing is noted.
_renew: list[Callable[[], None]] = []


def environ_for(directory: Path, below: Iterable[Path]) -> dict[str, str]:
    """The variables by which workers note in a directory which files ``below`` others tests execute."""
    (directory / _BELOW).write_text("\n".join(map(str, below)), encoding="utf-8")
    path = os.pathsep.join(filter(None, (_SITE, _ROOT, os.environ.get("PYTHONPATH"))))
    return {EnvVar.EXECUTED: str(directory), EnvVar.RUNNING_TEST: "", "PYTHONPATH": path}


def start(environ: Mapping[str, str] = os.environ) -> None:
    """Begins to note in this process, where the environment asks for it and nothing does so already."""
    directory = environ.get(EnvVar.EXECUTED)
    if directory and not _renew and os.path.isdir(directory):
        below = Path(directory, _BELOW).read_text(encoding="utf-8").splitlines()
        executed = _executed(Notes(Path(directory)), tuple(f"{each}{os.sep}" for each in below))
        renew_files = (_monitor if sys.version_info >= (3, 12) else _profile)(executed)
        _renew.append(renew_files)
        os.register_at_fork(after_in_child=renew_files)


def renew() -> None:
    """To be called where another test begins in a process."""
    for renew_files in _renew:
        renew_files()


@contextlib.contextmanager
def during(name: str) -> Iterator[None]:
    """What is executed while the context lasts is the test's of this name, or the class's or module's."""
    with noted(name):
        renew()
        yield


def _imports(frame: types.FrameType | None) -> bool:
    """Whether a function runs because a module is being imported."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT and frame.f_code.co_name == "_load_unlocked":
            return True
        frame = frame.f_back
    return False


def _executed(notes: Notes, below: tuple[str, ...]) -> Callable[[types.CodeType], bool]:
    watched = False

    def executed(code: types.CodeType) -> bool:
        """Notes the file of a function that begins to run; False where the code is no function's."""
        nonlocal watched
        watched = watched or dynamo_tracing.watch(executed)
        if not code.co_flags & inspect.CO_OPTIMIZED:
            return False
        file = code.co_filename
        if file.startswith(below) and file.endswith(".py") and (test := running_test()):
            notes.add(test, os.fsencode(file))
        return True

    return executed


def _monitor(executed: Callable[[types.CodeType], bool]) -> Callable[[], None]:
    """Calls ``executed`` at the first start of each code; returns what begins anew."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]  # from 3.12 on
    tool = 4  # one of those that PEP 669 leaves to tools without a name of their own

    def began(code: types.CodeType, offset: int) -> Any:
        if _imports(sys._getframe(1)):
            return None
        executed(code)
        return monitoring.DISABLE

    monitoring.use_tool_id(tool, "torch-harness: files that tests execute")
    monitoring.register_callback(tool, monitoring.events.PY_START, began)
    monitoring.set_events(tool, monitoring.events.PY_START)
    restart: Callable[[], None] = monitoring.restart_events
    return restart


def _profile(executed: Callable[[types.CodeType], bool]) -> Callable[[], None]:
    """Calls ``executed`` at the first call into each file, in every thread; returns what begins anew."""
    files: set[str] = set()

    hidden = False

    def called(frame: types.FrameType, event: str, argument: object) -> None:
        nonlocal hidden
        if event != "call" or frame.f_code.co_filename in files or _imports(frame):
            return
        if executed(frame.f_code):
            files.add(frame.f_code.co_filename)
            hidden = hidden or dynamo_tracing.hide(called.__code__)

    def renew_files() -> None:
        files.clear()
        if sys.getprofile() is not called:  # a test has taken it away
            sys.setprofile(called)

    threading.setprofile(called)
    sys.setprofile(called)
    return renew_files
