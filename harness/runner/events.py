"""A worker as the controller sees it, and what can happen to it: the values that ``workers`` deals in."""

from __future__ import annotations

import enum
import socket
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from harness.report.base import TestStarted
from harness.runner.messages import Fork, Item
from harness.runner.output_capture import OutputSplitter
from harness.wire import FrameReader


class Stage(enum.Enum):
    """How far the end of a worker has come."""

    RUNNING = "running"
    DUMPING = "its stacks are being taken"
    TERMINATING = "SIGTERM was sent"
    KILLED = "SIGKILL was sent"
    GONE = "gone"


class Cause(enum.Enum):
    """Why a worker is gone."""

    DONE = "its batch is over"
    CRASH = "by itself"
    TIMEOUT = "the running test's time was up"
    STOPPED = "the run was stopped"
    ZYGOTE = "the zygote was lost"


@dataclass(slots=True)
class Worker:
    """One worker. ``label`` is what people see; ``waiting`` the items it has not begun; ``doomed`` is the
    test because of which it is being ended: one that begins later is not to blame."""

    name: str
    label: str
    order: Fork
    limits: dict[int, float | None]
    channel: socket.socket
    output: int
    stacks: int
    splitter: OutputSplitter
    waiting: deque[Item]
    frames: FrameReader = field(default_factory=FrameReader)
    pid: int | None = None
    current: Item | None = None
    began_s: float = 0.0
    deadline_s: float | None = None
    stage: Stage = Stage.RUNNING
    stage_until_s: float = 0.0
    cause: Cause = Cause.CRASH
    dump: bytearray = field(default_factory=bytearray)
    doomed: Item | None = None
    done: bool = False
    ended_any: bool = False
    code: int | None = None
    peak_memory: int = 0

    @property
    def stack_text(self) -> str:
        """The stacks that it has written, of its own crash or because it was asked."""
        return self.dump.decode(errors="backslashreplace").strip()


@dataclass(frozen=True, slots=True)
class TestEnded:
    """A test is over: its record as JSON values, and what it printed."""

    worker: Worker
    item: Item
    record: dict[str, Any]
    output: str

    __test__ = False  # not a test class, whatever pytest thinks of the name


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """A worker is gone, why is in ``worker.cause``; ``running`` is the test that it cost. ``output`` is that
    test's or, without one, what the worker printed outside of tests."""

    worker: Worker
    running: Item | None
    output: str


@dataclass(frozen=True, slots=True)
class ZygoteGone:
    """The zygote died on its own; its workers are gone with it, and are reported next."""

    reason: str


@dataclass(frozen=True, slots=True)
class DebuggerChanged:
    """A debugger has taken the terminal, or has let go of it."""

    on: bool


Event = TestStarted | TestEnded | WorkerGone | ZygoteGone | DebuggerChanged
