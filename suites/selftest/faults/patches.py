"""Cases that leave a builtin, a standard function or the process's streams replaced, and pass or fail."""

from __future__ import annotations

import gc
import logging
import os
import pkgutil
import sys
from collections.abc import Callable
from typing import Any, NoReturn
from unittest import mock

from harness import MultiThreadedTestCase
from suites.selftest.faults.base import FaultyCase

# Names the patch that the tests leave.
PATCH = "SELFTEST_PATCH"


set_attribute = setattr  # which is one of the builtins that are replaced


class Refused(Exception):
    """What a replaced function raises."""


def refuse(*_: Any, **__: Any) -> NoReturn:
    """Stands in for a function that nobody may call."""
    raise Refused


def _wrong(*_: Any, **__: Any) -> bool:
    return False


def _replacing(*targets: str, value: Callable[..., Any] = refuse) -> Callable[[], object]:
    def replace() -> None:
        owners = [(pkgutil.resolve_name(owner), name) for owner, _, name in map(_parts, targets)]
        for owner, name in owners:
            set_attribute(owner, name, value)

    return replace


def _parts(target: str) -> tuple[str, str, str]:
    return target.rpartition(".")


def _forget_modules() -> None:
    for name in ("json", "time", "os", "traceback", "socket", "threading", "dataclasses"):
        del sys.modules[name]


def _close_streams() -> None:
    sys.stdout.close()
    sys.stderr.close()


def _forget_streams() -> None:
    sys.stdout = sys.stderr = None


class RefusingStream:
    """A stream that cannot be written to."""

    write = flush = refuse


def _leave_refusing_streams() -> None:
    sys.stdout = sys.stderr = RefusingStream()


FUNCTIONS = (
    *("json.dumps", "json.loads", "json.JSONEncoder.encode", "pickle.dumps", "dataclasses.replace"),
    *("time.monotonic", "time.time", "os.getpid", "os._exit", "os.write", "os.read", "os.close", "sys.exit"),
    *("socket.socket.sendall", "socket.socket.send", "socket.socket.setblocking", "socket.socket.recv"),
    *("traceback.format_exception", "traceback.TracebackException.format", "linecache.getline"),
    *("signal.signal", "threading.Thread", "threading.current_thread", "gc.collect", "warnings.warn"),
    *(
        "functools.partial",
        "functools.wraps",
        "contextlib.suppress",
        "struct.pack",
        "selectors.DefaultSelector",
    ),
)
# Without those that unittest itself calls between a test's method and its cleanups.
BUILTINS = (
    *("builtins.len", "builtins.open", "builtins.print", "builtins.repr", "builtins.str", "builtins.sorted"),
    *("builtins.map", "builtins.zip", "builtins.tuple", "builtins.ValueError", "builtins.hasattr"),
)
# Standard functions that a case may well replace in its ``setUp``.
OF_SET_UP = (
    "json.dumps",
    "json.loads",
    "time.monotonic",
    "time.time",
    "os.getpid",
    "os.read",
    "pickle.dumps",
)
# What tests leave, by name.
PATCHES: dict[str, Callable[[], object]] = {
    "functions": _replacing(*FUNCTIONS),
    "builtins": _replacing(*BUILTINS),
    "isinstance": _replacing("builtins.isinstance", value=_wrong),
    "type": _replacing("builtins.type"),
    "environment": os.environ.clear,
    "streams closed": _close_streams,
    "streams forgotten": _forget_streams,
    "streams that refuse": _leave_refusing_streams,
    "modules": _forget_modules,
    "collector": gc.disable,
    "logging": logging.disable,
}


class LeavingTests:
    """The tests: each leaves what ``PATCH`` names in rank 1."""

    rank: int

    def test_passes(self) -> None:
        """Passes."""
        self._leave()

    def test_fails(self) -> None:
        """Fails while the patch holds."""
        self._leave()
        raise AssertionError("the test's own")

    def test_stops_late(self) -> None:
        """Fails while a patch holds that a cleanup stops."""
        for target in ("json.dumps", "socket.socket.send", "builtins.isinstance"):
            patch = mock.patch(target, refuse)
            patch.start()
            self.addCleanup(patch.stop)  # type: ignore[attr-defined]  # of the case that this is mixed into
        raise AssertionError("the test's own")

    def test_leaves_nothing(self) -> None:
        """Passes, with builtins and standard functions as they were."""
        assert isinstance(repr([len(str(type(self)))]), str)

    def _leaves(self) -> bool:
        return self.rank == 1

    def _leave(self) -> None:
        if self._leaves():
            PATCHES[os.environ[PATCH]]()


class Leaves(LeavingTests, FaultyCase):
    """On ranks that are processes, fresh or pooled, or threads."""


class LeavesInThreads(LeavingTests, MultiThreadedTestCase):
    """On threads of one process."""

    world_size = 2


class SetUpPatches(FaultyCase):
    """A case whose ``setUp`` has the patch in the parent, until a cleanup."""

    def setUp(self) -> None:
        super().setUp()
        for target in OF_SET_UP:
            patch = mock.patch(target, refuse)
            patch.start()
            self.addCleanup(patch.stop)

    def test_passes(self) -> None:
        """Passes."""

    def test_fails(self) -> None:
        """Fails."""
        raise AssertionError("the test's own")
