"""The journal: every result of a run as a line of JSON, written as it happens.

Each line is one ``write`` to a descriptor that is opened for appending, so that after a SIGKILL of the
controller all lines are whole, except perhaps the last one. The controller locks the file for as long as the
run lasts; the kernel unlocks it however the controller ends. The first line describes the run and lists the
tests that it has to run::

    {"schema": 3, "kind": "run", "argv": [...], "options": {...}, "cwd": ..., "tests": [ids], ...}
    {"schema": 3, "kind": "test", "id": ..., "status": ..., ...}        a TestRecord, see harness/record.py
    {"schema": 3, "kind": "resume", "argv": [...], "options": {...}, ...}    a later run went on from here
    {"schema": 3, "kind": "end", "exit_code": ..., "at": ..., "messages": [...]}      the run has ended
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import ProtocolError, UsageError
from harness.outcomes import Status
from harness.record import SCHEMA, TestRecord, dumps, from_json
from harness.report.base import RunInfo
from harness.runner.exit_codes import ExitCode
from harness.runner.selection.shard_variables import Shard

NAME = "journal.jsonl"
# The journal of the previous run in the same directory is kept, so that nothing is lost where a run was
# started again by mistake instead of resumed.
PREVIOUS = "journal.previous.jsonl"
# What the first line keeps of a run's ``RunInfo``; the shard is written as ``I/N``.
_KEPT = (
    "argv",
    "command",
    "names",
    "cwd",
    "tests",
    "selection",
    "sources",
    "options",
    "environ",
    "seed",
    "shard",
    "repeats",
    "reruns",
    "jobs",
    "started_at",
    "hostname",
    "python",
    "torch",
    "platform",
    "shuffle",
)


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """An earlier run as the journal in its ``directory`` describes it.

    ``info`` has the options and variables of the last resumption. ``ended`` is the exit code of the run, None
    where it did not finish, and ``messages`` are what the harness itself had to say in it. ``torn`` is the
    number of lines that could not be read.
    """

    directory: Path
    info: RunInfo
    records: tuple[TestRecord, ...]
    ended: int | None = None
    torn: int = 0
    messages: tuple[str, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether the run came to its end.

        It was neither interrupted nor killed, and the harness did not fail.
        """
        return self.ended not in (None, ExitCode.INTERRUPTED, ExitCode.BROKEN)


class Journal:
    """Appends lines to a journal. After a failed write, ``failure`` tells why and nothing more is written."""

    def __init__(self, path: Path) -> None:
        """Opens the file for appending and locks it.

        OSError where it cannot be opened, UsageError where another run holds its lock.
        """
        self.path = path
        self.failure: str | None = None
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if not _lock(self._fd):
            self.close()
            raise UsageError(f"{path.parent}: a run is still going there; wait until it has ended")

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def begin(self, info: RunInfo) -> None:
        """Writes the first line."""
        value = {name: getattr(info, name) for name in _KEPT}
        self._write(_line("run", {**value, "shard": info.shard_text or None}))

    def resume(
        self, argv: Sequence[str], options: Mapping[str, Any], environ: Mapping[str, str], at: float
    ) -> None:
        """Writes that another process resumes the run, with its options and variables.

        A torn last line is ended first, so that the next line is whole.
        """
        torn = not _ends_with_newline(self.path)
        value = {"argv": list(argv), "options": dict(options), "environ": dict(environ), "at": at}
        self._write(("\n" if torn else "") + _line("resume", value))

    def add(self, record: TestRecord) -> None:
        """Writes a finished attempt."""
        self._write(dumps(record))

    def end(self, exit_code: int, at: float, messages: Sequence[str] = ()) -> None:
        """Writes that the run has ended, and the notices of the harness itself in it."""
        self._write(_line("end", {"exit_code": exit_code, "at": at, "messages": list(messages)}))

    def _write(self, line: str) -> None:
        if self.failure is not None:
            return
        data = line.encode(errors="backslashreplace") + b"\n"
        try:
            while data:  # one round, unless the disk is filling up
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            self.failure = f"{self.path}: {error.strerror}"
            with contextlib.suppress(OSError):  # the disk may be full for it too; readers skip torn lines
                os.write(self._fd, b"\n")


def _line(kind: str, value: Mapping[str, Any]) -> str:
    return json.dumps({"schema": SCHEMA, "kind": kind, **value}, ensure_ascii=False, separators=(",", ":"))


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as stream:
        if stream.seek(0, os.SEEK_END) == 0:
            return True
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"


def _lock(fd: int) -> bool:
    """Locks a file until the descriptor is closed; False where another process holds the lock.

    True without a lock for a device, and on file systems that have no locks.
    """
    if stat.S_ISREG(os.fstat(fd).st_mode):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
    return True


@contextlib.contextmanager
def idle(directory: Path) -> Iterator[bool]:
    """True where no run writes the directory's journal; while the context lasts, none can begin to."""
    path = directory / NAME
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC) if os.path.isfile(path) else -1
    except OSError:
        fd = -1
    try:
        yield fd < 0 or _lock(fd)
    finally:
        if fd >= 0:
            os.close(fd)


def create(directory: Path) -> Journal:
    """Opens a new journal in a directory, where an older one is renamed. Raises the errors of ``Journal``."""
    path = directory / NAME
    if path.exists() and path.stat().st_size:
        with Journal(path):
            path.replace(directory / PREVIOUS)
    return Journal(path)


def begun(directory: Path) -> bool:
    """Whether a run has written the first line of its journal in the directory."""
    try:
        return b"\n" in (directory / NAME).read_bytes()
    except OSError:
        return False


def read(directory: Path) -> EarlierRun:
    """Reads the journal in a run's directory; UsageError where it is missing or is not a journal."""
    path = directory / NAME
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"{path} is no file; start the run anew")
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"no run to go on with in {directory}: {NAME}: {error.strerror}") from None
    return parse(lines, path)


def parse(lines: Iterable[bytes], path: Path) -> EarlierRun:
    """The run that a journal's lines describe. Lines that cannot be read are counted and left out.

    So are those of a second run, and of an attempt that the journal has already. UsageError where the line
    that describes the run is missing.
    """
    info: RunInfo | None = None
    records: dict[tuple[str, int, int], TestRecord] = {}
    ended: int | None = None
    messages: dict[str, None] = {}
    torn = 0
    for line in filter(None, lines):
        try:
            value = json.loads(line)
            kind = value["kind"]
            if kind == "run" and info is None:
                info = _info(value)
            elif kind == "run":
                torn += 1
            elif kind == "resume" and info is not None:
                info = replace(info, **_conditions(value))
            elif kind == "test":
                _add(records, from_json(value))
            ended = int(value["exit_code"]) if kind == "end" else None
            messages.update(dict.fromkeys(_texts(value.get("messages", [])) if kind == "end" else ()))
        except _UNREADABLE:
            torn += 1
    if info is None:
        raise UsageError(f"{path} does not begin with a run's header; start the run anew")
    return EarlierRun(path.parent, info, tuple(records.values()), ended, torn, tuple(messages))


# What reading a line raises that anybody may have changed. Nested a thousand deep, it is too deep for json.
_UNREADABLE = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    ProtocolError,
)


def _add(records: dict[tuple[str, int, int], TestRecord], record: TestRecord) -> None:
    """Adds the record of an attempt that is not there yet, or was there as one that was cut short."""
    key = (record.id, record.repeat, record.attempt)
    known = records.get(key)
    if known is None or known.status is Status.ENDED:
        records.pop(key, None)  # the order of records is that in which attempts ended
        records[key] = record


def _info(value: Mapping[str, Any]) -> RunInfo:
    if value.get("schema", 0) > SCHEMA:
        raise ProtocolError(f"a journal of schema {value['schema']}; this harness reads up to {SCHEMA}")
    shard = Shard.parse(value["shard"]) if value.get("shard") else None
    shuffle = value.get("shuffle")
    if not (shuffle is None or type(shuffle) is int):
        raise TypeError("the seed of the order is no number")
    fields = {
        **{name: value[name] for name in _KEPT if name in value},
        **_conditions(value),
        "argv": _texts(value["argv"]),
        "cwd": _text(value["cwd"]),
        "tests": tuple(dict.fromkeys(_texts(value["tests"]))),
        "selection": tuple(dict.fromkeys(_texts(value.get("selection", [])))),
        **{name: _words(value[name]) for name in ("names", "sources") if name in value},
        "shard": (shard.number, shard.total) if shard is not None else None,
    }
    return RunInfo(**fields)


def _conditions(value: Mapping[str, Any]) -> dict[str, Any]:
    """The options and variables of a header, or of a later run that went on."""
    options, environ = dict(value["options"]), dict(value["environ"])
    for variable in environ.items():
        if "\0" in "".join(map(_text, variable)):
            raise ValueError("a variable with a NUL")
        os.fsencode("".join(variable))  # the variables are given to processes
    return {"options": options, "environ": environ}


def _words(values: Any) -> dict[str, str]:
    """A table of words by words."""
    return {_text(name): _text(word) for name, word in dict(values).items()}


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{type(values).__name__} in place of a list")
    return tuple(map(_text, values))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} in place of text")
    return value
