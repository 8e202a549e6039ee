"""The journal: every result of a run as a line of JSON, written as it happens.

One ``write`` a line on a descriptor opened for appending, so that whoever kills the controller finds whole
lines and at most one torn one at the end. The file is locked as long as its run goes on, by the controller
alone, and the kernel unlocks it however that ends. The first line says what the run is and which
tests it owes::

    {"schema": 1, "kind": "run", "argv": [...], "options": {...}, "cwd": ..., "tests": [ids], ...}
    {"schema": 1, "kind": "test", "id": ..., "status": ..., ...}        a TestRecord, see harness/record.py
    {"schema": 1, "kind": "resume", "argv": [...], "options": {...}, ...}    a later run went on from here
    {"schema": 1, "kind": "end", "exit_code": ..., "at": ...}           the run came to its end
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
from harness.record import SCHEMA, TestRecord, dumps, from_json
from harness.report.base import RunInfo
from harness.runner.shard_variables import Shard

NAME = "journal.jsonl"
# The journal of the run before in the same directory: one generation, so that a run which was started again
# by mistake instead of resumed has lost nothing.
PREVIOUS = "journal.previous.jsonl"
# What the first line keeps of a run's ``RunInfo``; the shard is written as ``I/N``.
_KEPT = (
    "argv",
    "cwd",
    "tests",
    "options",
    "environ",
    "seed",
    "shard",
    "repeats",
    "reruns",
    "started_at",
    "python",
    "torch",
    "shuffle",
)


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A run as its journal in ``directory`` has it.

    ``info`` has the options and variables as the last resumption had them. ``ended`` is the exit code of a
    run that came to its end, else None; ``torn`` counts lines that could not be read.
    """

    directory: Path
    info: RunInfo
    records: tuple[TestRecord, ...]
    ended: int | None = None
    torn: int = 0


class Journal:
    """Appends lines; after a write that failed it goes on in memory and says so once, by ``failure``."""

    def __init__(self, path: Path) -> None:
        """Opens the file for appending. OSError where that is impossible, UsageError where another run is at
        it."""
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
        """Notes that another process goes on, with which options and variables; closes a torn last line, so
        that the next one is whole."""
        torn = not _ends_with_newline(self.path)
        value = {"argv": list(argv), "options": dict(options), "environ": dict(environ), "at": at}
        self._write(("\n" if torn else "") + _line("resume", value))

    def add(self, record: TestRecord) -> None:
        """Writes a finished attempt."""
        self._write(dumps(record))

    def end(self, exit_code: int, at: float) -> None:
        """Notes that the run came to its end."""
        self._write(_line("end", {"exit_code": exit_code, "at": at}))

    def _write(self, line: str) -> None:
        if self.failure is not None:
            return
        data = line.encode(errors="backslashreplace") + b"\n"
        try:
            while data:  # one round, unless the disk is filling up
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            self.failure = f"{self.path}: {error.strerror}"
            with contextlib.suppress(OSError):  # no room for a newline either: the reader skips torn lines
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
    """Locks a file until the descriptor is closed; False where somebody else has it locked. A device, or a
    file on a file system without locks, is anybody's."""
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
    """True where no run writes the journal of a directory, and none can begin to inside of the context."""
    path = directory / NAME
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC) if path.is_file() else -1
    except OSError:
        fd = -1
    try:
        yield fd < 0 or _lock(fd)
    finally:
        if fd >= 0:
            os.close(fd)


def create(directory: Path) -> Journal:
    """A new journal in a directory; an older one there is kept under another name. Raises as ``Journal``."""
    path = directory / NAME
    if path.exists() and path.stat().st_size:
        with Journal(path):
            path.replace(directory / PREVIOUS)
    return Journal(path)


def read(directory: Path) -> EarlierRun:
    """The journal of a run's directory; UsageError where there is none, or it is none."""
    path = directory / NAME
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no file; start the run anew")
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"no run to go on with in {directory}: {NAME}: {error.strerror}") from None
    return parse(lines, path)


def parse(lines: Iterable[bytes], path: Path) -> EarlierRun:
    """The contents of a journal's lines; a line that is torn or unknown is counted and left out."""
    info: RunInfo | None = None
    records: list[TestRecord] = []
    ended: int | None = None
    torn = 0
    for line in filter(None, lines):
        try:
            value = json.loads(line)
            kind = value["kind"]
            if kind == "run":
                info = _info(value)
            elif kind == "resume" and info is not None:
                info = replace(info, options=value["options"], environ=value["environ"])
            elif kind == "test":
                records.append(from_json(value))
            ended = int(value["exit_code"]) if kind == "end" else None
        except (ValueError, KeyError, TypeError, ProtocolError):
            torn += 1
    if info is None:
        raise UsageError(f"{path} does not begin with a run's header; start the run anew")
    return EarlierRun(path.parent, info, tuple(records), ended, torn)


def _info(value: Mapping[str, Any]) -> RunInfo:
    if value.get("schema", 0) > SCHEMA:
        raise ProtocolError(f"a journal of schema {value['schema']}; this harness reads up to {SCHEMA}")
    fields = {name: value[name] for name in _KEPT if name in value}
    shard = Shard.parse(fields["shard"]) if fields.get("shard") else None
    return RunInfo(
        **{
            **fields,
            "argv": tuple(fields["argv"]),
            "tests": tuple(fields["tests"]),
            "options": dict(fields["options"]),
            "environ": dict(fields["environ"]),
            "shard": (shard.number, shard.total) if shard is not None else None,
        }
    )
