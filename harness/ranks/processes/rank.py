"""The life of a rank process: settle signals and threads, run the test, report, wait for release, exit.

A rank never returns into the code that forked it: it ends by ``os._exit`` when the supervisor releases it.
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
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, NoReturn, TextIO

from harness import compiler_state, coverage_hook
from harness.communication import call_log
from harness.communication.record.chaos import chaos_of
from harness.communication.record.recording import recording
from harness.communication.tensor_values.values import ValueFile
from harness.conformance import cells
from harness.impact import recorder
from harness.outcomes import EXIT_ERROR, Status
from harness.protocol import Assignment, Launch, Passed, RepeatLaunch, Report, decode
from harness.ranks import debugger, guard, process_groups, warning_filters
from harness.ranks.processes import module_import, preload, process_identity
from harness.ranks.processes.channel import RankChannel
from harness.ranks.processes.late_imports import late_imports
from harness.ranks.result import RankResult, exit_forked_child, final_result
from harness.system import gpu_count, intra_op_threads, originals, posix, python_warnings, runner_settings
from harness.system.signals import RANK_STACKS
from harness.wire import socket_from

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def from_fork(assignment: Assignment, close: Iterable[int]) -> NoReturn:
    """The first call in a rank that was forked from a server; closes the server's descriptors."""
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
    except BaseException:  # noqa: BLE001 - must never reach the server's frames
        with contextlib.suppress(OSError, ValueError):
            traceback.print_exc()
    finally:
        os._exit(1)


def from_exec() -> NoReturn:
    """The first call in a rank that is a new interpreter; its assignment is on standard input."""
    with open(0, "rb", closefd=False) as stdin:
        assignment = decode(stdin.read())
    assert isinstance(assignment, Assignment)
    for fd in (assignment.channel, assignment.stack, assignment.log):
        os.set_inheritable(fd, False)
    posix.input_from_null()
    module_import.adopt_parent_environment(assignment.launch)
    live(assignment)


def live(assignment: Assignment) -> NoReturn:
    """Runs the rank from its first settings to its exit: one test, or test after test in a pooled rank."""
    _fresh_streams()
    process_identity.be_rank(assignment.rank)
    _settle_signals(assignment)
    gpu_count.forget()
    coverage_hook.start_in_child()
    debugger.install(assignment.rank)
    _settle_threads(assignment.launch)
    channel = RankChannel(socket_from(assignment.channel), assignment.rank)
    log = call_log.CallLog(mmap.mmap(assignment.log, call_log.LOG_BYTES))
    missing = late_imports.missing()
    if assignment.launch.pooled:
        _serve_tests(assignment, channel, log)
        late_imports.note(missing)
        _leave(RankResult(Status.PASSED))
    started = monotonic()
    final = _run(assignment, assignment.launch, assignment.launch, channel, log)
    late_imports.note(missing)
    channel.report(_report(assignment, final, started, channel.warned))
    channel.wait_for_release()
    _leave(final)


def _serve_tests(assignment: Assignment, channel: RankChannel, log: call_log.CallLog) -> None:
    """Runs test after test in a pooled rank; after each, the leak guard lists what the test left changed."""
    watch = guard.Guard((assignment.channel, assignment.stack))
    request = previous = assignment.launch
    channel.goes_on = True
    channel.on_ready, channel.on_import = watch.begin, watch.accept_import
    while (test := channel.next_test()) is not None:
        started = monotonic()
        changed = False
        if isinstance(test, Launch):
            request = test
            if not request.same_surroundings:
                changed = module_import.adopt_parent_environment(request, previous)
                previous = request
            _settle_threads(request, anew=changed)
            changed = True  # the leak guard compares the number of threads
        elif test.current_test:
            module_import.adopt_current_test(test.current_test, previous)
            watch.accept_environment()
        recorder.renew()
        compiler_state.reset_if_used()
        destroyed = process_groups.destroy_groups_unless(request.keeps_group)
        watch.begin(unchanged=not (destroyed or changed))
        final = _run(assignment, request, test, channel, log)
        posix.flush_streams()  # otherwise the end of its output would be part of the next test's
        left = (*channel.patches.left, *watch.what_changed(request.keeps_group))
        channel.report(_report(assignment, final, started, channel.warned, left, watch.groups_begun))


def _run(
    assignment: Assignment,
    request: Launch,
    test: Launch | RepeatLaunch,
    channel: RankChannel,
    log: call_log.CallLog,
) -> RankResult:
    """Runs a test of the class that ``request`` names; the method and the file are those of ``test``."""
    ending: BaseException | None = None
    pid = os.getpid()
    log.clear()
    try:
        channel.patches.put_in_place()
        case = _case(request, test, channel)
        values = _values(request, assignment.rank)
        cells.install(request.cells, assignment.rank, request.world_size)
        chaos = chaos_of(os.environ, assignment.rank)
        recorded = recording(log, restart=not request.keeps_group, values=values, chaos=chaos)
        # A pooled rank's next test starts with the original filters.
        with recorded, warnings.catch_warnings():
            if request.warning_filters:
                warning_filters.apply(request.warning_filters)
            python_warnings.take_shown(channel.take_warning)
            log.begin_test(_name(request))
            case._run(  # upstream's entry point, which every launched class has
                assignment.rank, test.method, test.file_name, channel, **request.kwargs
            )
    except BaseException as error:  # noqa: BLE001 - every exception becomes this rank's outcome
        ending = error
    told = channel.result
    channel.patches.put_away(originals.restore() if told is None else told.patches)
    final = final_result(channel.result, ending, channel.texts)
    if os.getpid() != pid:  # a child that the test forked must not report for the rank
        exit_forked_child(final)
    log.end_test()
    return final


def _name(request: Launch) -> str:
    """What people know the test by; of kept ranks the class, which is written in their logs only once."""
    name = f"{request.module.name}.{request.qualname}"
    return name if request.pooled else f"{name}.{request.method}"


def _values(request: Launch, rank: int) -> Callable[[bytes], object] | None:
    """Takes the records of the rank's values, where these are checked."""
    return ValueFile(request.values, rank).append if request.values else None


def _case(request: Launch, test: Launch | RepeatLaunch, channel: RankChannel) -> Any:
    """The test's class, imported if necessary; the previous test's where the request is ``RepeatLaunch``."""
    found = channel.kept.pop("case", None)
    if found is None or isinstance(test, Launch):
        modules, had_torch = len(sys.modules), "torch" in sys.modules
        found = module_import.find_class(request.module, request.qualname)
        preload.import_modules(request.imports)
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
    warned: tuple[str, ...],
    left: tuple[str, ...] = (),
    groups_begun: int = 0,
) -> Report | Passed:
    if final == _PASSED and not warned and not left and not groups_begun:
        return Passed(assignment.rank, monotonic() - started, started, os.getpid())
    known = {"warned": warned, "left": left, "groups_begun": groups_begun}
    return Report(final.outcome(assignment.rank, started, **known))


_PASSED = RankResult(Status.PASSED)


def _fresh_streams() -> None:
    """Makes new standard streams: the parent's objects hold its buffers or write to a captured file.

    Handlers of logging that write to those write to the new ones.
    """
    instead: dict[int, TextIO] = {}
    for name, fd in (("stdout", 1), ("stderr", 2)):
        raw = io.FileIO(fd, "w", closefd=False)
        stream = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
        for each in (name, f"__{name}__"):
            instead[id(getattr(sys, each))] = stream
            setattr(sys, each, stream)
    runner_settings.redirect_handlers(instead)


def _settle_signals(assignment: Assignment) -> None:
    """Sets default signal handlers, a stack dump on ``RANK_STACKS``, and death with the server.

    The dump is written even where C code holds the GIL.
    """
    signal.set_wakeup_fd(-1)  # the server has set one
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the parent's blocked signals are not blocked here
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.enable(
        file=assignment.stack
    )  # a crash writes its stack to the same pipe as a requested dump
    faulthandler.register(RANK_STACKS, file=assignment.stack, all_threads=True, chain=False)
    posix.die_with_parent(signal.SIGKILL)
    if os.getppid() != assignment.server_pid:
        os._exit(EXIT_ERROR)  # the server ended before die_with_parent took effect


def _settle_threads(request: Launch, *, anew: bool = False) -> None:
    """Sets the rank's intra-op threads once torch is imported, and torch.distributed's debug level.

    The thread count is set in each rank because after a fork torch still has its parent's OpenMP pool
    (related: pytorch/pytorch#17199). The debug level is set because torch reads ``TORCH_DISTRIBUTED_DEBUG``
    at import only (pytorch/pytorch#73166). ``anew`` says that the environment has changed since the level was
    read.
    """
    intra_op_threads.set_in_torch(request.threads)
    distributed = sys.modules.get("torch.distributed")
    read = anew or "TORCH_DISTRIBUTED_DEBUG" in os.environ
    if read and distributed is not None and distributed.is_available():
        with contextlib.suppress(ValueError):  # the variable has a value that torch does not know
            distributed.set_debug_level_from_env()


def _leave(final: RankResult) -> NoReturn:
    """Runs the test's atexit functions, flushes coverage and the standard streams, and ends the process.

    A process that ends by ``os._exit`` runs no atexit functions otherwise (python/cpython#83856).
    """
    try:
        atexit._run_exitfuncs()
    finally:
        coverage_hook.flush()
        posix.flush_streams()
        os._exit(final.exit_code)
