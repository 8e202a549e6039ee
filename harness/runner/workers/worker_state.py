"""``Worker``: the state of one worker in the controller, and its descriptors."""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from harness.record import TestRecord
from harness.runner.messages import Fork, Item
from harness.runner.worker_process.output_capture import OutputSplitter
from harness.system.control_group import MemoryKills
from harness.wire import FrameReader, socket_pair

# Bytes that a pipe holds unless it is told to hold more (pipe(7)).
PIPE_BYTES = 65536


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

    @property
    def due_s(self) -> float:
        """When something has to be done with it, on the monotonic clock."""
        if self.stage is not Stage.RUNNING:
            return self.stage_until_s
        return self.deadline_s if self.deadline_s is not None else float("inf")

    def postpone(self, seconds: float) -> None:
        """Gives it more time."""
        self.stage_until_s += seconds
        if self.deadline_s is not None:
            self.deadline_s += seconds

    def take_back(self, number: int) -> list[Item]:
        """Takes at most ``number`` items from the end of its batch that it has not claimed."""
        try:
            taken = len(os.read(self.claims, min(number, len(self.waiting))))
        except BlockingIOError:  # a test has opened the pipe for writing, so it has no end
            taken = 0
        return [self.waiting.pop() for _ in range(taken)][::-1]

    def close(self) -> None:
        """Closes the descriptors of a worker that is gone."""
        self.stage = Stage.GONE
        self.channel.close()
        for fd in (self.output, self.stacks, self.claims):
            os.close(fd)
        self.output = self.stacks = self.claims = -1


@contextlib.contextmanager
def opened(
    name: str,
    label: str,
    items: Sequence[tuple[Item, float | None]],
    options: Fork,
    host: str = "",
    shift_s: float = 0.0,
) -> Iterator[tuple[Worker, list[int]]]:
    """The state of a worker for items with their time limits, and the descriptors that it is to be sent.

    These are closed at the end, except the claim pipe's, which both have; the worker's own stay open.
    """
    order = replace(options, worker=name, items=[item for item, _ in items], marker=_marker())
    near, far = socket_pair()
    output, output_far = os.pipe()
    stacks, stacks_far = os.pipe()
    claims = _claim_pipe(len(items))
    for fd in (output, stacks):
        os.set_blocking(fd, False)
    near.setblocking(False)
    worker = Worker(
        name=name,
        label=label,
        order=order,
        limits={item.seq: limit for item, limit in items},
        channel=near,
        output=output,
        stacks=stacks,
        splitter=OutputSplitter(order.marker),
        waiting=deque(order.items),
        claims=claims,
        host=host,
        shift_s=shift_s,
    )
    try:
        yield worker, [far.fileno(), output_far, stacks_far, claims]
    finally:
        far.close()
        os.close(output_far)
        os.close(stacks_far)


def _claim_pipe(items: int) -> int:
    """The read end of a pipe with a byte for each item, and then its end."""
    claims, far = os.pipe()
    os.set_blocking(claims, False)
    if items > PIPE_BYTES:
        fcntl.fcntl(far, fcntl.F_SETPIPE_SZ, items)
    os.write(far, b"." * items)
    os.close(far)
    return claims


def _marker() -> str:
    """A random marker that separates the output of tests on a pipe, which no test prints by chance."""
    return f"\x1eharness-{os.urandom(8).hex()}-"
