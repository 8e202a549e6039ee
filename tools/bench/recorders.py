"""The recorders with which that of the communication checker is compared: none, and one that counts calls.

The second is what this harness had before the checker: a number, a name and two times for each call of
Python's, neither arguments nor lines, and no judgement at a test's end. The rest of the harness is the same:
groups are still left only when all members have come out of making them.
"""

from __future__ import annotations

import functools
import mmap
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Any

from harness import rank_merging
from harness.communication.record.arguments import METHODS
from harness.communication.record.reduce_operations import OPTIONS
from harness.communication.taps import taps, warm_up
from harness.communication.taps.group_shutdown import awaiting, noting
from harness.communication.taps.tap_state import Taps
from harness.compiler_state import uncompiled

# By the name that a table has for each.
WITHOUT, COUNTING, CHECKER = RECORDERS = ("without", "counting", "checker")
# Which of them an interpreter that starts is to use, and what it imports then by itself.
VARIABLE = "BENCH_RECORDER"
_SITE = """import os
from tools.bench.recorders import VARIABLE, use
use(os.environ[VARIABLE])
"""
_PAGE = 4096
_ENTRY = Struct("<28s32sIdd")
_ENTRIES = (_PAGE - 16) // _ENTRY.size
_ENDS = Struct("<d")


def use(name: str) -> None:
    """Has this process and all that are forked from it record by that recorder; before torch is wrapped."""
    if name == CHECKER:
        return
    other = _Others(counts=name == COUNTING)
    for module, attribute, value in (
        (taps, "prepare", other.prepare),
        (taps, "install", other.install),
        (warm_up, "prepare_forks", other.prepare),
        (rank_merging, "with_communication", lambda outcome, *_: outcome),
    ):
        setattr(module, attribute, value)


def counting() -> None:
    """Wraps torch's functions in this process for the recorder that counts."""
    _Others(counts=True).install(None)


class Replacements:
    """What a recorder puts in place of functions of torch's, so that several take turns in one process."""

    def __init__(self, install: Callable[[], object]) -> None:
        """Finds out what ``install`` replaces, and takes that out again."""
        before = {owner: dict(vars(owner)) for owner in _owners()}
        install()
        self._found = [
            (owner, name, value, before[owner][name])
            for owner in before
            for name, value in vars(owner).items()
            if name in before[owner] and value is not before[owner][name]
        ]
        self._put(before=True)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """A region in which the recorder is used."""
        self._put(before=False)
        try:
            yield
        finally:
            self._put(before=True)

    def _put(self, *, before: bool) -> None:
        for owner, name, value, original in self._found:
            setattr(owner, name, original if before else value)


def _owners() -> Sequence[type]:
    """The classes of torch's of which calls of collectives use methods, and what these are given."""
    cpp: Any = sys.modules["torch._C._distributed_c10d"]
    return (cpp.ProcessGroup, cpp.Work, *(getattr(cpp, name) for name in OPTIONS if hasattr(cpp, name)))


def environment(name: str, directory: Path, root: Path) -> Mapping[str, str]:
    """Variables under which new interpreters use that recorder; writes what they need to ``directory``."""
    (directory / "sitecustomize.py").write_text(_SITE)
    paths = (str(directory), str(root), os.environ.get("PYTHONPATH", ""))
    return {VARIABLE: name, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


class _Counter:
    """Numbers the calls of each group from 1, and pairs each with the wait for it, in a page of memory."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, _PAGE)
        self._count = 0
        self.restart()

    def restart(self) -> None:
        """Numbers from 1 again."""
        self._numbers: dict[str, int] = {}
        self._open: dict[int, int] = {}  # id of a work handle -> token

    def began(self, group: Any, operation: str) -> int:
        """Notes that a call starts; returns its token."""
        try:
            name = str(group.group_name)
        except RuntimeError:  # a group that was never registered under a name
            name = "?"
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        token, self._count = self._count, self._count + 1
        entry = (operation.encode()[:28], name.encode()[:32], number, time.monotonic(), 0.0)
        _ENTRY.pack_into(self._page, _at(token), *entry)
        return token

    def returned(self, token: int, work: object) -> None:
        """Notes that it returned, which ends it unless there is a work handle."""
        if work is None:
            self._end(token)
            return
        if len(self._open) >= 4 * _ENTRIES:
            self._open.clear()
        self._open[id(work)] = token

    def waited(self, work: object) -> None:
        """Notes that a wait for a handle returned."""
        token = self._open.pop(id(work), None)
        if token is not None:
            self._end(token)

    def ends_group(self, group: object) -> None:
        """Notes nothing: the end of a group is no call of its."""

    def _end(self, token: int) -> None:
        if self._count - token <= _ENTRIES:
            _ENDS.pack_into(self._page, _at(token) + _ENTRY.size - _ENDS.size, time.monotonic())


def _at(token: int) -> int:
    return 16 + (token % _ENTRIES) * _ENTRY.size


class _Others:
    """Stands in for ``taps``: wraps what the recorder needs, and makes it in each rank."""

    def __init__(self, *, counts: bool) -> None:
        self._counts = counts
        self._taps = Taps()
        self._wrapped = False

    def prepare(self) -> Taps | None:
        """Wraps torch's functions, once; None where torch.distributed is not in use."""
        distributed: Any = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_available():
            return None
        if not self._wrapped:
            self._wrapped = True
            c10d, group, work = distributed.distributed_c10d, distributed.ProcessGroup, distributed.Work
            c10d._new_process_group_helper = noting(c10d._new_process_group_helper, self._taps)
            group.shutdown = awaiting(group.shutdown, self._taps)
            if self._counts:
                for method in filter(functools.partial(hasattr, group), METHODS):
                    setattr(group, method, _counted(getattr(group, method), METHODS[method], self._taps))
                work.wait = _waited(work.wait, self._taps)
        return self._taps

    def install(self, log: object, *, restart: bool = True, **_: object) -> bool:
        """Starts counting; False where torch.distributed is not in use."""
        found = self.prepare()
        if found is None:
            return False
        recorder: Any = found.recorder
        if recorder is None:
            found.recorder = _Counter()  # type: ignore[assignment]  # which only the wrappers here call
        elif restart:
            recorder.restart()
        return True


def _counted(original: Callable[..., Any], operation: str, state: Taps) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder: Any = state.recorder
        if recorder is None:
            return original(self, *args, **kwargs)
        token = recorder.began(self, operation)
        work = None
        try:
            work = original(self, *args, **kwargs)
        finally:
            recorder.returned(token, work)
        return work

    return uncompiled(call)


def _waited(original: Callable[..., Any], state: Taps) -> Callable[..., Any]:
    @functools.wraps(original)
    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder: Any = state.recorder
        try:
            return original(self, *args, **kwargs)
        finally:
            if recorder is not None:
                recorder.waited(self)

    return uncompiled(wait)
