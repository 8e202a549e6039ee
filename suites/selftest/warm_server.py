"""The interpreter of ``warm_python.py``: a script that imports modules, and then forks once for each command.

The modules are torch, and none of the tree, so that each fork imports harness for itself; or those of the
runner. A fork leaves ``serve`` and is then what a new interpreter would be that has imported them: the
command runs as ``__main__``, and the process ends by the end of this script, with the exit code, the threads
and the ``atexit`` functions of any. It only does not take torch apart then, which takes an interpreter half a
second.

With ``children`` as its second argument, the Python interpreters that a command starts are forks of it, with
the modules that the server had and none that the command has imported. What the command has changed in torch
and in the standard library stays. With ``first-child`` the first of them is a fork of the server, made before
the command runs: a run's zygote, which has nothing of what its controller did.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import fcntl
import gc
import importlib
import importlib.machinery
import inspect
import io
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

_HEAD = 8  # bytes of a request's length before it
# What the interpreter or torch reads once, while it starts: with another value than the server's, a command
# gets a new interpreter.
_READ_AT_START = (
    "PYTHON",
    "LD_",
    "OMP_",
    "KMP_",
    "MKL_",
    "GOMP_",
    "TORCH_",
    "PYTORCH_",
    "LC_",
    "LANG",
    "COVERAGE_",
)
_READ_LATER = (
    "PYTHONPATH",
    "PYTHONDONTWRITEBYTECODE",
    "MKL_NUM_THREADS",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "PYTORCH_TEST_WITH_SLOW",
)
_PATH = sys.path[1:]  # without the directory of this script


def starts_alike(environ: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether an interpreter that imports torch starts in the same way with both environments."""
    names = {name for name in (*environ, *other) if name.startswith(_READ_AT_START)}
    return all(environ.get(name) == other.get(name) for name in names.difference(_READ_LATER))


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
                answers.sendall(os.waitstatus_to_exitcode(status).to_bytes(_HEAD, "big", signed=True))
        if control.fileno() not in ready:
            continue
        if not (head := control.recv(_HEAD, socket.MSG_WAITALL)):
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
        answers.sendall(pid.to_bytes(_HEAD, "big"))
        running[os.pidfd_open(pid)] = pid, answers


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
    sys.path[:] = [*paths, *_PATH]
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


class Children:
    """Forks in place of the new interpreters that a command starts by ``subprocess``."""

    def __init__(self) -> None:
        """Notes what a new interpreter has, before the command runs."""
        self._started = dict(os.environ)
        self._packages = {name.partition(".")[0] for name in sys.modules} | sys.stdlib_module_names
        self._filters = warnings.filters[:]
        self._hooks = (sys.excepthook, threading.excepthook, warnings.showwarning)
        self._finders = sys.meta_path[:], sys.path_hooks[:]
        self._execute = _exec()
        self._signature = inspect.signature(self._execute)
        self._kept: list[Any] = []

    def take_over(self) -> None:
        """Makes ``subprocess.Popen`` start them."""
        children = self

        def execute_child(popen: Any, *given: Any) -> None:
            asked = children._signature.bind(popen, *given).arguments
            words = _words(asked, children._started)
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
            _is_started(popen, pid, asked)

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
            _take_descriptors(asked)
            if asked["start_new_session"]:
                os.setsid()
            elif asked.get("process_group", -1) >= 0:
                os.setpgid(0, asked["process_group"])
            environ = {**(os.environ if asked["env"] is None else asked["env"])}
            _open_streams("PYTHONUNBUFFERED" in environ or "-u" in [*asked["args"]][: -len(words)])
            cwd = os.getcwd() if asked["cwd"] is None else os.fspath(asked["cwd"])
            code = _ends_with({"arguments": words, "cwd": cwd, "environ": environ})
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


class FirstChild:
    """A fork that waits, and becomes the first interpreter that a command starts by ``subprocess``."""

    def __init__(self) -> None:
        self._started = dict(os.environ)
        self._execute = _exec()
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
            words = _words(asked, first._started) if first._pid else None
            if words is None or "-u" in asked["args"] or not asked["close_fds"]:
                first._execute(popen, *given)
                return
            first._ask(asked, words)
            pid, first._pid = first._pid, 0
            _is_started(popen, pid, asked)

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
            self._near.sendall(len(text).to_bytes(_HEAD, "big"))
            socket.send_fds(self._near, [text[:1]], [*streams, *asked["pass_fds"]])
            self._near.sendall(text[1:])

    def _wait(self) -> dict[str, Any]:
        head = self._far.recv(_HEAD, socket.MSG_WAITALL)
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


def _exec() -> Callable[..., None]:
    """What starts a new interpreter in any case, also in a fork of a command whose children are forks."""
    now = subprocess.Popen._execute_child  # type: ignore[attr-defined]  # what all its ways call
    found: Callable[..., None] = vars(now).get("exec", now)
    return found


def _words(asked: Mapping[str, Any], started: Mapping[str, str]) -> list[str] | None:
    """The arguments of an interpreter behind its options, where a fork of one that was ``started`` with such
    variables is the same; else None.
    """
    words = asked["args"]
    if isinstance(words, str) or asked["shell"] or [*words][:1] != [sys.executable]:
        return None
    plain = ("preexec_fn", "gid", "gids", "uid")
    if any(asked[name] is not None for name in plain) or asked["umask"] >= 0:
        return None
    options = [*subprocess._args_from_interpreter_flags(), "-u"]  # type: ignore[attr-defined]
    rest = [os.fsdecode(each) for each in words][1:]
    while rest and rest[0] in options:
        del rest[0]
    if not starts_alike(os.environ if asked["env"] is None else asked["env"], started):
        return None
    if not rest or not (rest[0] in ("-c", "-m") or rest[0].endswith(".py")):
        return None
    return rest


def _is_started(popen: Any, pid: int, asked: Mapping[str, Any]) -> None:
    """Makes a fork the process of a ``Popen``, and closes this process's copies of its streams' ends."""
    popen.pid, popen._child_created = pid, True
    ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
    popen._close_pipe_fds(*(asked[name] for name in ends))


def _forks_safely() -> bool:
    """Whether this process has no threads but Python's and those of a TCPStore."""
    names = [Path(f"/proc/self/task/{each}/comm").read_text() for each in os.listdir("/proc/self/task")]
    return len([name for name in names if not name.startswith("pt_tcpstore")]) == len(sys._current_frames())


def _take_descriptors(asked: Mapping[str, Any]) -> None:
    """Leaves the standard streams that were asked for and the descriptors that are passed on."""
    given = [asked[name] for name in ("p2cread", "c2pwrite", "errwrite")]
    high = [None if number == -1 else fcntl.fcntl(number, fcntl.F_DUPFD, 64) for number in given]
    for number, source in enumerate(high):
        if source is not None:
            os.dup2(source, number)
    passed = {0, 1, 2, *asked["pass_fds"]}
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):
            if number in passed:
                os.set_inheritable(number, True)
            elif asked["close_fds"] or not os.get_inheritable(number):
                os.close(number)


def _open_streams(unbuffered: bool) -> None:
    """Makes Python's standard streams anew, on the descriptors as they are now."""
    assert sys.__stdout__ is not None
    encoding = sys.__stdout__.encoding
    vars(sys)["stdin"] = vars(sys)["__stdin__"] = os.fdopen(0, encoding=encoding, closefd=False)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = io.TextIOWrapper(
            os.fdopen(number, "wb", 0 if unbuffered else -1, closefd=False),
            encoding=encoding,
            errors="backslashreplace" if number == 2 else "strict",
            line_buffering=number == 2 or os.isatty(number),
            write_through=unbuffered,
        )
        vars(sys)[name] = vars(sys)[f"__{name}__"] = stream


def _ends_with(request: dict[str, Any]) -> int:
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


if __name__ == "__main__":
    leaving = Leaving()
    atexit.register(leaving)  # before torch, and so after all others
    gc.disable()
    forking, *names = sys.argv[2:]
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the tree; a command's path is made anew
    for name in names:
        importlib.import_module(name)
    gc.freeze()  # else each fork would look through all of torch at its end
    gc.enable()
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    if asked is not None:
        if forking == "children":
            Children().take_over()
        elif forking == "first-child":
            asked = FirstChild().given() or asked
        leaving.run(asked)
