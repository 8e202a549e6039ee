"""The steps by which a worker is ended, as decisions over its state: what to send it, and until when to wait.

    start -> RUNNING --deadline or end()--> DUMPING --stacks are in--> TERMINATING --grace--> KILLED
                |                                                                      |
                +------------------------------- Gone <-------------------------------+

A crash or the end of its batch leads from any stage to Gone.
"""

from __future__ import annotations

import signal

from harness.runner.messages import Kill
from harness.runner.worker_process.output_capture import BEFORE_THE_FIRST
from harness.runner.workers.events import WorkerGone
from harness.runner.workers.worker_state import Cause, Stage, Worker
from harness.runner.workers.zygote_process import STACKS_S
from harness.system import posix
from harness.system.signals import WORKER_STACKS

# Seconds without further bytes after which a dump counts as complete: faulthandler writes no end mark.
STACKS_QUIET_S = 0.2
# Seconds between SIGTERM and SIGKILL: enough to write coverage data, or to run a shell script's trap.
TERMINATE_S = 1.0
# Seconds to wait for a killed process to end. One that takes longer is in an uninterruptible system call, and
# the run goes on without it.
KILLED_S = 10.0
assert STACKS_QUIET_S < TERMINATE_S < STACKS_S < KILLED_S
# The most bytes of a worker's stacks that are kept; more have hundreds of threads.
STACK_BYTES = 256 * 1024


def begin(worker: Worker, cause: Cause, now: float) -> Kill:
    """The first step: a running test's stacks are asked for; a worker between tests gets SIGTERM.

    A stopped test with ranks gets SIGINT in place of the request for stacks: the ranks' supervisor then
    takes the stacks of the ranks, ends them, and reports what each was doing.
    """
    worker.cause, worker.doomed = cause, worker.current
    if worker.current is None:
        return terminate(worker, now)
    worker.stopped = worker.pid is not None and posix.is_stopped(worker.pid)
    if worker.stopped:  # it would not write its stacks, nor take a SIGTERM
        return kill(worker, now)
    worker.stage, worker.stage_until_s = Stage.DUMPING, now + STACKS_S
    interrupt = cause is Cause.STOPPED and worker.current.ranks > 1
    return Kill(worker.name, int(signal.SIGINT if interrupt else WORKER_STACKS), group=False)


def terminate(worker: Worker, now: float) -> Kill:
    """The step after the stacks."""
    worker.stage, worker.stage_until_s = Stage.TERMINATING, now + TERMINATE_S
    return Kill(worker.name, int(signal.SIGTERM), group=True)


def kill(worker: Worker, now: float) -> Kill:
    """The last step."""
    worker.stage, worker.stage_until_s = Stage.KILLED, now + KILLED_S
    return Kill(worker.name, int(signal.SIGKILL), group=True)


def next_step(worker: Worker, now: float) -> Kill | None:
    """The step after a stage whose time is over; None where the run goes on without the worker."""
    if worker.stage is Stage.DUMPING:
        return terminate(worker, now)
    return kill(worker, now) if worker.stage is Stage.TERMINATING else None


def add_stacks(worker: Worker, data: bytes, now: float) -> None:
    """Adds bytes that the worker wrote of its stacks; when no more follow, the next step is due."""
    worker.dump += data[: max(0, STACK_BYTES - len(worker.dump))]
    if data and worker.stage is Stage.DUMPING:
        worker.stage_until_s = min(worker.stage_until_s, now + STACKS_QUIET_S)


def gone(worker: Worker) -> WorkerGone:
    """The event of the worker's end, when all that it said has been read.

    A test that began after another one was doomed is not to blame: it waits again.
    """
    ended_for_it = worker.stage is Stage.RUNNING or worker.doomed is worker.current
    if worker.current is not None and not ended_for_it:
        worker.waiting.appendleft(worker.current)
        worker.current = None
    if worker.done and worker.current is None and worker.stage is Stage.RUNNING:
        worker.cause = Cause.DONE
    running = worker.current
    output = worker.splitter.rest(running.seq if running is not None else BEFORE_THE_FIRST)
    return WorkerGone(worker, running, output)
