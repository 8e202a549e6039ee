"""What a worker's messages mean for its state in the controller, and the events that they lead to."""

from __future__ import annotations

import time

from harness.errors import ProtocolError
from harness.record import from_json, shifted
from harness.report.base import TestStarted
from harness.runner.messages import Began, Debugging, Done, Ended, Message
from harness.runner.workers.events import DebuggerChanged, Event, TestEnded
from harness.runner.workers.worker_state import Stage, Worker


def heed(worker: Worker, message: Message, since_s: float = 0.0) -> Event | None:
    """Changes the worker's state by a message; ProtocolError for one that no worker sends now.

    The limit of a test that begins counts from ``since_s`` on the monotonic clock at the earliest. The output
    of a test that ended must have been read.
    """
    if worker.stage is not Stage.RUNNING and not isinstance(message, Debugging):
        _heed_too_late(worker, message)
        return None
    if isinstance(message, Began):
        return _begun(worker, message, since_s)
    if isinstance(message, Ended):
        return _ended(worker, message)
    if isinstance(message, Debugging) and worker.order.post_mortem:
        limit = worker.limits.get(worker.current.seq) if worker.current else None
        worker.deadline_s = time.monotonic() + limit if limit is not None and not message.on else None
        return DebuggerChanged(message.on)
    if not isinstance(message, Done):
        raise ProtocolError(f"a worker sent {type(message).__name__}")
    worker.done = True
    return None


def _heed_too_late(worker: Worker, message: Message) -> None:
    """Keeps the record of a test whose worker is being ended; nothing else that the worker says counts.

    The signal by which a worker is asked for stacks ends a test's system call, and the test may pass or
    fail for no other reason.
    """
    if isinstance(message, Ended) and worker.doomed is not None and message.seq == worker.doomed.seq:
        worker.too_late = shifted(from_json(message.record), worker.shift_s)


def _begun(worker: Worker, message: Began, since_s: float) -> TestStarted:
    item = worker.waiting[0] if worker.waiting else None
    if item is None or item.seq != message.seq or worker.current is not None:
        raise ProtocolError(f"the beginning of another test, number {message.seq}")
    worker.waiting.popleft()
    began_s = message.at_s + worker.shift_s
    worker.current, worker.began_s = item, began_s
    limit = worker.limits[item.seq]
    worker.deadline_s = max(began_s, since_s) + limit if limit is not None else None
    attempt, world_size = item.attempt, item.ranks if item.ranks > 1 else None
    return TestStarted(item.id, worker.label, began_s, world_size, attempt.attempt, attempt.repeat)


def _ended(worker: Worker, message: Ended) -> TestEnded:
    item, record = worker.current, shifted(from_json(message.record), worker.shift_s)
    if item is None or (item.seq, item.id) != (message.seq, record.id):
        raise ProtocolError(f"the end of another test: {record.id}")
    worker.current, worker.deadline_s, worker.ended_any = None, None, True
    return TestEnded(worker, item, record, worker.splitter.take(item.seq))
