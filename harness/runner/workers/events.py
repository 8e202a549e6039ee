"""The events that ``Workers.wait`` returns."""

from __future__ import annotations

from dataclasses import dataclass

from harness.record import TestRecord
from harness.report.base import TestStarted
from harness.runner.messages import Item
from harness.runner.workers.worker_state import Worker
from harness.targets.device_set import DeviceSet


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
    """The event that another host can run whole tests; ``devices`` are the target's accelerators there."""

    host: str
    devices: DeviceSet | None


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
