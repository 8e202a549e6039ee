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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from harness import coverage_hook
from harness.communication import collective_log, recorder
from harness.outcomes import EXIT_ERROR, RankOutcome, Status
from harness.protocol import Again, Assignment, Launch, Passed, Report, decode
from harness.ranks import compiler_state, debugger, guard, process_groups, result
from harness.ranks.processes import module_import
from harness.ranks.processes.channel import RankChannel
from harness.system import posix
from harness.system.signals import STACK_SIGNAL

if TYPE_CHECKING:
    from harness.ranks.processes.server import Newborn

__unittest = True  # frames that no reader of a failure has a use for


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank stands: what it is to do, and the descriptors by which it is known."""

    request: Launch
    rank: int
    channel: int
    stack: int
    ledger: int
    server_pid: int


def from_fork(newborn: Newborn) -> NoReturn:
    """First call in a rank that was forked from a server."""
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        for fd in newborn.close:
            os.close(fd)
        os.dup2(newborn.output, 1)
        os.dup2(newborn.output, 2)
        os.close(newborn.output)
        gc.enable()
        live(
            Place(
                newborn.request,
                newborn.rank,
                newborn.channel,
                newborn.stack,
                newborn.ledger,
                newborn.server_pid,
            )
        )
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
    for fd in assignment.descriptors:
        os.set_inheritable(fd, False)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    module_import.take_over(assignment.launch)
    channel, stack, book = assignment.descriptors
    live(Place(assignment.launch, assignment.rank, channel, stack, book, assignment.server_pid))


def live(place: Place) -> NoReturn:
    """Everything from settling in to the exit."""
    _fresh_streams()
    _settle_signals(place)
    coverage_hook.start_in_child()
    debugger.install(place.rank)
    _settle_threads(place.request)
    channel = RankChannel(socket.socket(fileno=place.channel), place.rank)
    memory = mmap.mmap(place.ledger, collective_log.size(place.request.world_size))
    book = collective_log.CollectiveLog(memory, place.rank)
    if place.request.pooled:
        _serve_tests(place, channel, book)
        _leave(result.RankResult(Status.PASSED))
    started = time.monotonic()
    final = _run(place, place.request, place.request, channel, book)
    channel.report(_report(place, final, started))
    channel.wait_for_release()
    _leave(final)


def _serve_tests(place: Place, channel: RankChannel, book: collective_log.CollectiveLog) -> None:
    """A pooled rank's life: test after test, each followed by a look at what it left behind."""
    watch = guard.Guard()
    request = previous = place.request
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
        final = _run(place, request, test, channel, book)
        posix.flush_streams()  # or the end of what it printed would come with the next test
        left = watch.what_changed(request.keeps_group)
        channel.report(_report(place, final, started, left, watch.groups_begun))


def _run(
    place: Place,
    request: Launch,
    test: Launch | Again,
    channel: RankChannel,
    book: collective_log.CollectiveLog,
) -> result.RankResult:
    """Runs a test of the class that ``request`` names; the method and the file are those of ``test``."""
    ending: BaseException | None = None
    pid = os.getpid()
    try:
        case = _case(request, test, channel)
        recorder.install(book, restart=not request.keeps_group)
        book.clear()
        with warnings.catch_warnings():  # filters end with their test, on ranks that are kept
            case._run(  # every launched class has upstream's entry
                place.rank, test.method, test.file_name, channel, **request.kwargs
            )
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is this rank's outcome
        ending = error
    final = result.conclude(channel.account, ending, channel.texts)
    if os.getpid() != pid:  # a child that the test forked: the report is the rank's alone to make
        result.leave_as_child(final)
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
    place: Place, final: result.RankResult, started: float, left: tuple[str, ...] = (), groups_begun: int = 0
) -> Report | Passed:
    duration = time.monotonic() - started
    if final == _PASSED and not left and not groups_begun:
        return Passed(place.rank, duration, started, os.getpid())
    return Report(
        RankOutcome(
            rank=place.rank,
            status=final.status,
            error=final.error,
            skip_reason=final.skip_reason,
            subtests=final.subtests,
            duration_s=duration,
            started_s=started,
            exit_code=result.exit_code(final) if final.ending is not None else None,
            pid=os.getpid(),
            note=final.note,
            accepted=final.accepted,
            left=left,
            groups_begun=groups_begun,
        )
    )


_PASSED = result.RankResult(Status.PASSED)


def _fresh_streams() -> None:
    """Standard streams of the rank's own: the parent's objects hold its buffers, or some capture's file."""
    for name, fd in (("stdout", 1), ("stderr", 2)):
        raw = io.FileIO(fd, "w", closefd=False)
        stream = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _settle_signals(place: Place) -> None:
    """Default signals, a stack dump on request even from C code that holds the GIL, and no life without the
    server."""
    signal.set_wakeup_fd(-1)  # the server's
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # a parent that blocks signals blocks only its own
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.enable(file=place.stack)  # a crash's own stack comes the same way as one that is asked for
    faulthandler.register(STACK_SIGNAL, file=place.stack, all_threads=True, chain=False)
    posix.die_with_parent(signal.SIGKILL)
    if os.getppid() != place.server_pid:
        os._exit(EXIT_ERROR)  # the server died before we could ask


def _settle_threads(request: Launch, *, anew: bool = False) -> None:
    """This rank's share of the machine, as soon as torch is there, and the debug level of its environment.

    Set even where the number is right already: torch replaces the pool that it had before a fork at its next
    use, which is safe only while this is the one thread. ``anew`` where the environment has changed since.
    """
    torch = sys.modules.get("torch")
    if torch is not None and request.threads is not None:
        torch.set_num_threads(request.threads)
    distributed = sys.modules.get("torch.distributed")
    read = anew or "TORCH_DISTRIBUTED_DEBUG" in os.environ
    if read and distributed is not None and distributed.is_available():
        with contextlib.suppress(ValueError):  # a bad value is the test's to meet, as on import
            distributed.set_debug_level_from_env()


def _leave(final: result.RankResult) -> NoReturn:
    """Runs what the test registered for the exit, writes out what is buffered, and ends the process."""
    try:
        atexit._run_exitfuncs()
    finally:
        coverage_hook.flush()
        posix.flush_streams()
        os._exit(result.exit_code(final))
