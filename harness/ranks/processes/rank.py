"""The life of a rank: settle in, run the test, report, wait for the others, leave.

A rank never returns into the code that made it: it ends by ``os._exit`` once the supervisor lets it.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import io
import mmap
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Iterable
from typing import Any, NoReturn

from harness import compiler_state, coverage_hook
from harness.communication import collective_log, recorder
from harness.outcomes import EXIT_ERROR, Status
from harness.protocol import Again, Assignment, Launch, Passed, Report, decode
from harness.ranks import debugger, guard, process_groups
from harness.ranks.processes import module_import
from harness.ranks.processes.channel import RankChannel
from harness.ranks.result import RankResult, conclude, leave_as_child
from harness.system import intra_op_threads, posix
from harness.system.signals import RANK_STACKS

__unittest = True  # frames that no reader of a failure has a use for


def from_fork(assignment: Assignment, close: Iterable[int]) -> NoReturn:
    """First call in a rank that was forked from a server, whose descriptors in ``close`` it must not keep."""
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        for fd in close:
            os.close(fd)
        os.dup2(assignment.output, 1)
        os.dup2(assignment.output, 2)
        os.close(assignment.output)
        gc.enable()
        live(assignment)
    except BaseException:  # noqa: BLE001 - the server's frames below must never see it
        with contextlib.suppress(OSError, ValueError):
            traceback.print_exc()
    finally:
        os._exit(1)


def from_exec() -> NoReturn:
    """First call in a rank that is a new interpreter; its assignment is on standard input."""
    with open(0, "rb", closefd=False) as stdin:
        assignment = decode(stdin.read())
    assert isinstance(assignment, Assignment)
    for fd in (assignment.channel, assignment.stack, assignment.log):
        os.set_inheritable(fd, False)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    module_import.take_over(assignment.launch)
    live(assignment)


def live(assignment: Assignment) -> NoReturn:
    """Everything from settling in to the exit."""
    _fresh_streams()
    _settle_signals(assignment)
    coverage_hook.start_in_child()
    debugger.install(assignment.rank)
    _settle_threads(assignment.launch)
    channel = RankChannel(socket.socket(fileno=assignment.channel), assignment.rank)
    memory = mmap.mmap(assignment.log, collective_log.size(assignment.launch.world_size))
    log = collective_log.CollectiveLog(memory, assignment.rank)
    if assignment.launch.pooled:
        _serve_tests(assignment, channel, log)
        _leave(RankResult(Status.PASSED))
    started = time.monotonic()
    final = _run(assignment, assignment.launch, assignment.launch, channel, log)
    channel.report(_report(assignment, final, started))
    channel.wait_for_release()
    _leave(final)


def _serve_tests(assignment: Assignment, channel: RankChannel, log: collective_log.CollectiveLog) -> None:
    """A pooled rank's life: test after test, each followed by a look at what it left behind."""
    watch = guard.Guard()
    request = previous = assignment.launch
    channel.on_ready, channel.on_import = watch.begin, watch.accept_import
    while (test := channel.next_test()) is not None:
        started = time.monotonic()
        changed = False
        if isinstance(test, Launch):
            request = test
            if not request.same_surroundings:
                changed = module_import.take_over(request, previous)
                previous = request
            _settle_threads(request, anew=changed)
            changed = True  # the number of threads is among what is looked at
        compiler_state.reset_if_used()
        destroyed = process_groups.destroy_unless(request.keeps_group)
        watch.begin(unchanged=not (destroyed or changed))
        final = _run(assignment, request, test, channel, log)
        posix.flush_streams()  # or the end of what it printed would come with the next test
        left = watch.what_changed(request.keeps_group)
        channel.report(_report(assignment, final, started, left, watch.groups_begun))


def _run(
    assignment: Assignment,
    request: Launch,
    test: Launch | Again,
    channel: RankChannel,
    log: collective_log.CollectiveLog,
) -> RankResult:
    """Runs a test of the class that ``request`` names; the method and the file are those of ``test``."""
    ending: BaseException | None = None
    pid = os.getpid()
    try:
        case = _case(request, test, channel)
        recorder.install(log, restart=not request.keeps_group)
        log.clear()
        with warnings.catch_warnings():  # filters end with their test, on ranks that are kept
            case._run(  # every launched class has upstream's entry
                assignment.rank, test.method, test.file_name, channel, **request.kwargs
            )
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is this rank's outcome
        ending = error
    final = conclude(channel.result, ending, channel.texts)
    if os.getpid() != pid:  # a child that the test forked: the report is the rank's alone to make
        leave_as_child(final)
    return final


def _case(request: Launch, test: Launch | Again, channel: RankChannel) -> Any:
    """The test's class, imported if need be; that of the test before where it is to run again."""
    found = channel.kept.pop("case", None)
    if found is None or isinstance(test, Launch):
        modules, had_torch = len(sys.modules), "torch" in sys.modules
        found = module_import.find_class(request.module, request.qualname)
        if not had_torch:
            _settle_threads(request)
        if len(sys.modules) != modules:
            channel.imported()
    channel.kept["case"] = found
    return found


def _report(
    assignment: Assignment,
    final: RankResult,
    started: float,
    left: tuple[str, ...] = (),
    groups_begun: int = 0,
) -> Report | Passed:
    if final == _PASSED and not left and not groups_begun:
        return Passed(assignment.rank, time.monotonic() - started, started, os.getpid())
    return Report(final.outcome(assignment.rank, started, left=left, groups_begun=groups_begun))


_PASSED = RankResult(Status.PASSED)


def _fresh_streams() -> None:
    """Standard streams of the rank's own: the parent's objects hold its buffers, or some capture's file."""
    for name, fd in (("stdout", 1), ("stderr", 2)):
        raw = io.FileIO(fd, "w", closefd=False)
        stream = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _settle_signals(assignment: Assignment) -> None:
    """Default signals, a stack dump on request even from C code that holds the GIL, and no life without the
    server."""
    signal.set_wakeup_fd(-1)  # the server's
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # a parent that blocks signals blocks only its own
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.enable(
        file=assignment.stack
    )  # a crash's own stack comes the same way as one that is asked for
    faulthandler.register(RANK_STACKS, file=assignment.stack, all_threads=True, chain=False)
    posix.die_with_parent(signal.SIGKILL)
    if os.getppid() != assignment.server_pid:
        os._exit(EXIT_ERROR)  # the server died before we could ask


def _settle_threads(request: Launch, *, anew: bool = False) -> None:
    """Sets the rank's intra-op threads, as soon as torch is there, and torch.distributed's debug level.

    ``anew`` where the environment has changed since the debug level was read.
    """
    intra_op_threads.set_in_torch(request.threads)
    distributed = sys.modules.get("torch.distributed")
    read = anew or "TORCH_DISTRIBUTED_DEBUG" in os.environ
    if read and distributed is not None and distributed.is_available():
        with contextlib.suppress(ValueError):  # a bad value is the test's to meet, as on import
            distributed.set_debug_level_from_env()


def _leave(final: RankResult) -> NoReturn:
    """Runs what the test registered for the exit, writes out what is buffered, and ends the process."""
    try:
        atexit._run_exitfuncs()
    finally:
        coverage_hook.flush()
        posix.flush_streams()
        os._exit(final.exit_code)
