"""``Worker``, a worker's state in the controller, and the events that ``Workers.wait`` returns."""

from __future__ import annotations

import enum
import socket
from collections import deque
from dataclasses import dataclass, field

from harness.record import TestRecord
from harness.report.base import TestStarted
from harness.runner.messages import Fork, Item
from harness.runner.output_capture import OutputSplitter
from harness.system.control_group import MemoryKills
from harness.wire import FrameReader


class Stage(enum.Enum):
    """The stages of a worker, from running to the steps by which it is ended."""

    RUNNING = "running"
    DUMPING = "its stacks are being taken"
    TERMINATING = "SIGTERM was sent"
    KILLED = "SIGKILL was sent"
    GONE = "gone"


class Cause(enum.Enum):
    """Why a worker has ended."""

    DONE = "its batch is over"
    CRASH = "by itself"
    TIMEOUT = "the running test's time was up"
    STOPPED = "the run was stopped"
    GARBLED = "its messages could not be read"
    ZYGOTE = "the zygote was lost"
    HOST = "its host was lost"


@dataclass(slots=True)
class Worker:
    """The state of one worker.

    ``label`` is its name in reports. ``waiting`` are the items that it has not begun, and ``claims`` is
    the claim pipe, with a byte for each of them that it has not claimed. ``doomed`` is the test
    because of which the worker is being ended; a test that begins afterwards is not reported as the cause.
    ``too_late`` is the record that the doomed test sent after it was given up. ``host`` is the worker's host,
    "" for the controller's; of a process on another one the controller knows no id. ``shift_s`` is what to
    add to that host's clock.
    """

    name: str
    label: str
    order: Fork
    limits: dict[int, float | None]
    channel: socket.socket
    output: int
    stacks: int
    splitter: OutputSplitter
    waiting: deque[Item]
    claims: int
    frames: FrameReader = field(default_factory=FrameReader)
    pid: int | None = None
    current: Item | None = None
    began_s: float = 0.0
    deadline_s: float | None = None
    stage: Stage = Stage.RUNNING
    stage_until_s: float = 0.0
    cause: Cause = Cause.CRASH
    stopped: bool = False  # by a signal, when it was to be ended
    stopped_looks: int = 0  # how often in a row it was found stopped while it ran no test
    garbled: str = ""  # what was wrong with its messages
    dump: bytearray = field(default_factory=bytearray)
    doomed: Item | None = None
    too_late: TestRecord | None = None
    done: bool = False
    ended_any: bool = False
    code: int | None = None
    killed: str = ""  # what is known of why it was killed
    peak_memory: int = 0
    memory_kills: MemoryKills = field(default_factory=MemoryKills.until_now)
    host: str = ""
    shift_s: float = 0.0
    host_lost: str = ""  # how its host was lost

    @property
    def stack_text(self) -> str:
        """The Python stacks that the worker wrote when it crashed, or when the controller asked for them."""
        return self.dump.decode(errors="backslashreplace").strip()


@dataclass(frozen=True, slots=True)
class TestEnded:
    """The event that a test has ended, with its record and its output."""

    worker: Worker
    item: Item
    record: TestRecord
    output: str

    __test__ = False  # not a test class, whatever pytest thinks of the name


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """The event that a worker has ended; ``worker.cause`` tells why.

    ``running`` is the test that it was running, None where there was none. ``output`` is that test's output,
    or what the worker printed outside of tests.
    """

    worker: Worker
    running: Item | None
    output: str


@dataclass(frozen=True, slots=True)
class ZygoteGone:
    """The event that the zygote of a host died. Its workers died with it; a ``WorkerGone`` for each follows.

    ``host_lost`` where that is because the whole host was lost.
    """

    reason: str
    host: str = ""
    host_lost: bool = False


@dataclass(frozen=True, slots=True)
class HostReady:
    """The event that another host can run whole tests; ``accelerators`` as in ``messages.Ready``."""

    host: str
    accelerators: int | None


@dataclass(frozen=True, slots=True)
class HostUnusable:
    """The event that another host cannot run whole tests, because the target cannot be tested there."""

    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class DebuggerChanged:
    """The event that a debugger in a worker takes the terminal (``on``) or gives it back."""

    on: bool


@dataclass(frozen=True, slots=True)
class Notice:
    """The event that something happened of which the user is told in one line."""

    text: str


Event = (
    TestStarted | TestEnded | WorkerGone | ZygoteGone | HostReady | HostUnusable | DebuggerChanged | Notice
)
