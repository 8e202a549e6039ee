"""``cell``: says what a part of a test tries; each rank records when it begins and how it ends.

Recorded only in a run whose conformance is reported (``HARNESS_CONFORMANCE``). A test has a directory in
that one, made with its first cell, and each rank a file in it. A line is written when a cell begins and
another when it ends, so that a cell in which a rank dies or hangs is told from the others.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
import types
import unittest
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import environment
from harness.communication.tensor_values.values import ValueFile
from harness.targets.current import current
from harness.targets.declared import is_undeclared
from harness.targets.target import MESSAGES, MOVING, REDUCING

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

RIGHT, WRONG, REFUSED, UNDECLARED, SKIPPED = "right", "wrong", "refused", "undeclared", "skipped"
# The directory below the run's in which tests record their cells.
DIRECTORY = "cells"
# Lines and characters of what is kept of an exception.
MOST_LINES = 3
MOST_SAID = 400
# Hexadecimal digits of a test's id in the name of its directory.
_DIGITS = 24

_OF_TARGET = frozenset((*MOVING, *REDUCING, *MESSAGES))
# The rank or test of the running thread. A rank is a thread in the threads mode.
_RUNNING = threading.local()


@dataclass(frozen=True, slots=True)
class Entry:
    """A cell as one rank has recorded it.

    ``number`` counts the rank's cells from 1; ``coordinates`` are pairs in the order in which the test names
    them; ``end`` is None where the cell did not end; ``said`` is the beginning of the exception that ended
    it.
    """

    rank: int
    number: int
    world_size: int
    operation: str
    coordinates: tuple[tuple[str, str], ...]
    declared: bool = True
    end: str | None = None
    said: str = ""


class Recorder:
    """Writes the cells of one rank, or of a test without ranks, as lines of JSON."""

    def __init__(self, directory: str, rank: int, world_size: int) -> None:
        self._directory = directory
        self._file = ValueFile(directory, rank)
        self._world_size = world_size
        self._number = 0

    def began(self, operation: str, coordinates: Mapping[str, str]) -> tuple[int, bool]:
        """Writes that a cell begins; returns its number, and whether the target declares it."""
        declared = not _undeclared(operation, coordinates)
        self._number += 1
        if self._number == 1:
            os.makedirs(self._directory, exist_ok=True)
        line = [self._number, self._world_size, operation, list(coordinates.items()), declared]
        self._write(line)
        return self._number, declared

    def ended(self, number: int, end: str, said: str) -> None:
        """Writes how a cell ended."""
        self._write([number, end, said])

    def _write(self, line: list[Any]) -> None:
        self._file.append(json.dumps(line).encode() + b"\n")


class _Cell:
    """The context of a cell that is recorded."""

    def __init__(self, recorder: Recorder, operation: str, coordinates: Mapping[str, object]) -> None:
        self._recorder, self._operation = recorder, operation
        self._coordinates = {name: str(value) for name, value in coordinates.items()}
        self._number, self.declared = 0, True

    def __enter__(self) -> None:
        self._number, self.declared = self._recorder.began(self._operation, self._coordinates)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> bool | None:
        if error is None or isinstance(error, Exception):  # what ends the process leaves the cell open
            self._recorder.ended(self._number, *_end_of(error))
        return None


class _Trial(_Cell):
    """The context of a cell whose failure does not count where the target does not declare it."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> bool:
        super().__exit__(kind, error, trace)
        return not self.declared and isinstance(error, Exception)


_NOT_RECORDED = contextlib.nullcontext()


def cell(operation: str, **coordinates: object) -> contextlib.AbstractContextManager[None]:
    """A context in which one thing is tried: an operation or feature, by named coordinates.

    ``dtype`` and ``reduction`` are by the names of ``harness.targets``, and together with ``operation`` say
    whether the target declares it. Other names are free: ``way``, ``placements``. The world size and the test
    are known. An ``AssertionError`` that leaves the context is a wrong result, another exception a refusal,
    and both go on; so a cell stands within a sub-test, not around it. All ranks begin the same cells.
    """
    recorder: Recorder | None = getattr(_RUNNING, "recorder", None)
    return _NOT_RECORDED if recorder is None else _Cell(recorder, operation, coordinates)


def trial(operation: str, **coordinates: object) -> contextlib.AbstractContextManager[None]:
    """As ``cell``, for what ``declared_or_recorded`` lets through: an exception goes on only if declared."""
    recorder: Recorder | None = getattr(_RUNNING, "recorder", None)
    return _NOT_RECORDED if recorder is None else _Trial(recorder, operation, coordinates)


def declared_or_recorded(operation: str, **coordinates: str) -> bool:
    """Whether to try this: the target declares it, or the run reports what works though it is not declared.

    For tests that can lose nothing but themselves by it, since what is not declared may hang or crash.
    """
    return getattr(_RUNNING, "recorder", None) is not None or not _undeclared(operation, coordinates)


def _undeclared(operation: str, coordinates: Mapping[str, str]) -> str:
    if operation not in _OF_TARGET:
        return ""
    wanted = {name: coordinates[name] for name in ("reduction", "dtype") if name in coordinates}
    return current().undeclared(operation=operation, **wanted)


def _end_of(error: Exception | None) -> tuple[str, str]:
    if error is None:
        return RIGHT, ""
    said = gist(error)
    if isinstance(error, unittest.SkipTest):
        return (UNDECLARED if is_undeclared(str(error)) else SKIPPED), said
    if isinstance(error, AssertionError):
        return WRONG, said
    return REFUSED, f"{type(error).__name__}: {said}"[:MOST_SAID]


def gist(error: BaseException) -> str:
    """The first lines of an exception's text, in one: what differs stands behind that it does."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:MOST_LINES])[:MOST_SAID]


# -- where cells are recorded


def install(directory: str, rank: int = 0, world_size: int = 1) -> None:
    """Has the running thread record its cells in a test's directory; in none where that is ""."""
    _RUNNING.recorder = Recorder(directory, rank, world_size) if directory else None


def begin_test(test_id: str) -> None:
    """Has the running thread record the cells of a test without ranks, where this run records them."""
    install(directory_of(environment.settings().conformance, test_id))


def directory_of(directory: str | None, test_id: str) -> str:
    """A new path for the cells of one attempt at a test; "" where ``directory`` is None or ""."""
    if not directory:
        return ""
    return os.path.join(directory, f"{_digest(test_id)}.{time.time_ns():020d}")


def _digest(test_id: str) -> str:
    return hashlib.sha256(test_id.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


# -- reading


class Recorded:
    """The cells of a run's tests: of each test those of its last attempt that recorded any.

    A run whose shards have a directory each has several.
    """

    def __init__(self, *directories: Path) -> None:
        paths = (path for each in directories if each.is_dir() for path in each.iterdir())
        # A name is a test and the time of an attempt.
        self._found = {
            path.name.partition(".")[0]: path for path in sorted(paths, key=lambda path: path.name)
        }

    def of(self, test_id: str) -> tuple[Entry, ...]:
        """What the ranks of a test have recorded, by rank and number; () for none."""
        path = self._found.get(_digest(test_id))
        if path is None:
            return ()
        files = sorted((file for file in path.iterdir() if file.name.isdigit()), key=lambda f: int(f.name))
        return tuple(entry for file in files for entry in read(int(file.name), file.read_bytes()))


def read(rank: int, data: bytes) -> Iterator[Entry]:
    """The cells in a rank's file; a line that a dying rank has left unfinished is no line."""
    began: dict[int, list[Any]] = {}
    ended: dict[int, list[Any]] = {}
    for line in _lines(data):
        (began if len(line) == 5 else ended)[line[0]] = line
    for number, (_, world_size, operation, coordinates, declared) in began.items():
        _, end, said = ended.get(number, (number, None, ""))
        pairs = tuple((name, value) for name, value in coordinates)
        yield Entry(rank, number, world_size, operation, pairs, declared, end, said)


def _lines(data: bytes) -> Iterable[list[Any]]:
    for line in data.split(b"\n")[:-1]:
        yield json.loads(line)
