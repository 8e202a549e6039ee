"""What a struck rank does: a function for each fault, called in the rank with its test case."""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import os
import random
import signal
import subprocess
import sys
import threading
import unittest
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

__unittest = True  # as in the harness, so that a traceback in a verdict shows no frame of this file

# Seconds that a hang would last. Nobody waits this long: the harness ends the rank, or the tool does.
FOREVER_S = 3600
# Descriptors up to here are closed or written to by the faults that do so.
DESCRIPTORS = 512


class Unexpected(AssertionError):
    """A test author's own kind of assertion error."""


class StraightThrough(BaseException):
    """An exception that no ``except Exception`` catches."""


class Unprintable(Exception):
    """An exception of which nothing can be had: no text, no representation, no pickle."""

    def __str__(self) -> str:
        raise ValueError("no text")

    def __repr__(self) -> str:
        raise ValueError("no representation")

    def __reduce__(self) -> Any:
        raise ValueError("no pickle")


def _raise(error: BaseException) -> NoReturn:
    raise error


def _raise_group() -> NoReturn:
    group: Any = getattr(builtins, "ExceptionGroup", None)
    if group is None:
        raise ValueError("there are no groups of exceptions before Python 3.11")
    raise group("several at once", [ValueError("one"), TypeError("two")])


def _recurse() -> None:
    _recurse()


def _wait_for_event() -> None:
    threading.Event().wait()


def _sleep_loop() -> NoReturn:
    never = threading.Event()
    while True:
        never.wait(0.05)


def _catch_everything() -> NoReturn:
    while True:
        try:
            _sleep_loop()
        except BaseException:  # noqa: BLE001 - catching everything is the fault
            continue


def _ignore_sigterm() -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _sleep_loop()


def _lock_with_gil() -> None:
    mutex = ctypes.create_string_buffer(64)  # zeros are PTHREAD_MUTEX_INITIALIZER, 40 bytes at most
    libc = ctypes.PyDLL(None)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)


def _signal_self(number: int) -> None:
    os.kill(os.getpid(), number)


def _close_all() -> None:
    os.closerange(0, DESCRIPTORS)


def _garbage(case: Any) -> None:
    """Writes to every descriptor what is no frame of any protocol."""
    data = random.Random(case.script.seed).randbytes(64)
    for fd in range(3, DESCRIPTORS):
        with contextlib.suppress(OSError):
            os.set_blocking(fd, False)
            os.write(fd, data)


def _leave_thread(*, daemon: bool) -> None:
    threading.Thread(target=threading.Event().wait, name="left by a fuzz case", daemon=daemon).start()


def _leave_process(*, session: bool) -> None:
    subprocess.Popen(["sleep", str(FOREVER_S)], start_new_session=session)


def _flood() -> None:
    print("x" * 1_000_000)
    sys.stdout.flush()
    sys.stderr.write("y" * 100_000 + "\n")


def _fork_and_return() -> None:
    pid = os.fork()
    if pid != 0:
        os.waitpid(pid, 0)


def _fail_then_skip(case: unittest.TestCase) -> None:
    with case.subTest(part="fails"):
        case.fail("the sub-test before the skip")
    case.skipTest("after a failed sub-test")


_STRIKES: Mapping[str, Callable[[Any], object]] = {
    "assertion": lambda case: case.fail("as drawn"),
    "assertion_subclass": lambda case: _raise(Unexpected("as drawn")),
    "huge_message": lambda case: _raise(AssertionError("x" * 5_000_000)),
    "value_error": lambda case: _raise(ValueError("as drawn")),
    "base_exception": lambda case: _raise(StraightThrough("as drawn")),
    "unprintable": lambda case: _raise(Unprintable()),
    "exception_group": lambda case: _raise_group(),
    "recursion_error": lambda case: _recurse(),
    "memory_error": lambda case: _raise(MemoryError()),
    "stop_iteration": lambda case: _raise(StopIteration("as drawn")),
    "keyboard_interrupt": lambda case: _raise(KeyboardInterrupt()),
    "sys_exit_0": lambda case: sys.exit(0),
    "sys_exit_3": lambda case: sys.exit(3),
    "sys_exit_none": lambda case: sys.exit(None),
    "sys_exit_text": lambda case: sys.exit("as drawn"),
    "os_exit_0": lambda case: os._exit(0),
    "os_exit_3": lambda case: os._exit(3),
    "sigsegv": lambda case: _signal_self(signal.SIGSEGV),
    "sigkill": lambda case: _signal_self(signal.SIGKILL),
    "sigterm": lambda case: _signal_self(signal.SIGTERM),
    "sigabrt": lambda case: os.abort(),
    "real_time_signal": lambda case: _signal_self(signal.SIGRTMIN + 5),
    "close_all": lambda case: _close_all(),
    "garbage": _garbage,
    "wait_for_event": lambda case: _wait_for_event(),
    "sleep_loop": lambda case: _sleep_loop(),
    "catch_everything": lambda case: _catch_everything(),
    "native_sleep": lambda case: ctypes.CDLL(None).sleep(FOREVER_S),
    "native_poll": lambda case: ctypes.CDLL(None).poll(None, 0, -1),
    "native_sleep_with_gil": lambda case: ctypes.PyDLL(None).sleep(FOREVER_S),
    "native_lock_with_gil": lambda case: _lock_with_gil(),
    "ignore_sigterm": lambda case: _ignore_sigterm(),
    "sigstop": lambda case: _signal_self(signal.SIGSTOP),
    "nothing": lambda case: None,
    "thread_left": lambda case: _leave_thread(daemon=False),
    "daemon_thread_left": lambda case: _leave_thread(daemon=True),
    "flood": lambda case: _flood(),
    "fork_returns": lambda case: _fork_and_return(),
    "process_left": lambda case: _leave_process(session=False),
    "session_left": lambda case: _leave_process(session=True),
    "skip": lambda case: case.skipTest("as drawn"),
    "sub_test_fails_then_skip": _fail_then_skip,
}


def strike(fault: str, case: Any) -> None:
    """Does to this rank what the fault is; ``case`` is its test case, or None while a module is imported.

    Returns only where the fault lets the rank go on.
    """
    if case is None and fault == "assertion":
        raise AssertionError("as drawn")
    _STRIKES[fault](case)
