"""The supervisor of rank processes: watches one test's ranks until each has ended, and makes their outcomes.

One loop in the calling thread waits for everything at once: reports, exits, output, stack dumps and the next
deadline. ``deadlines.decide`` decides what to do when; this module only observes and acts.
"""

from __future__ import annotations

import math
import selectors
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from harness.calls import Call
from harness.communication import call_log
from harness.errors import ProtocolError
from harness.merging import DEFAULT_RULES, MergeRules
from harness.outcomes import RankOutcome, Status, SubtestOutcome
from harness.protocol import Exited, HostLost, Message, Report, SubtestFailed, Swept, decode
from harness.ranks.deadlines import (
    STACKS_QUIET_S,
    Action,
    EndReason,
    Limits,
    NextStep,
    SupervisorView,
    decide,
    why_deadlocked,
)
from harness.ranks.exit_rules import ended_as, exited_wrongly, hung_at_exit, reported_too_late
from harness.ranks.job import UNSWEPT, JobResult
from harness.ranks.processes import stacks
from harness.ranks.processes.channel import MOST_SUBTESTS
from harness.ranks.processes.deadlock_watch import LOOK_EVERY_S, DeadlockWatch, WatchedRank
from harness.ranks.processes.fast_path import CollectedReports
from harness.ranks.processes.output import Output
from harness.ranks.processes.rank_set import RankLink, RankSet
from harness.settings import TIMEOUT_S
from harness.system import posix
from harness.system.server_process import STOPPED
from harness.system.signals import RANK_STACKS
from harness.wire import MAX_REPORT_BYTES, FrameReader, read_available

# This many reads empty even a pipe of the kernel's largest size, 1 MiB. Output after that is not the rank's,
# but that of a process which it started and which still prints.
DRAIN_READS = 16

# What a rank may say of its test. Any other end is for its parent to see.
_REPORTED = frozenset({Status.PASSED, Status.SKIPPED, Status.FAILED, Status.ERROR, Status.CRASHED})
_NO_REPORT = "its channel carried something that is no report"

Clock = Callable[[], float]


@dataclass(slots=True)
class _Watched:
    """The supervisor's record of one rank."""

    link: RankLink
    output: Output
    reader: FrameReader = field(default_factory=partial(FrameReader, MAX_REPORT_BYTES))
    messages: int = 0  # that came on its channel
    report: RankOutcome | None = None
    subtests: list[SubtestOutcome] = field(default_factory=list)  # that failed, while there is no report
    order: int | None = None  # place of its first failure or report among those of all ranks
    code: int | None = None
    peak_memory: int | None = None
    gone: bool = False
    ended_for: EndReason | None = None  # fixes the outcome of a rank without a report, before any signal
    too_late: str = ""  # what it reported after that
    calls: tuple[Call, ...] | None = None  # its communication calls until then, if any
    deadlocked: bool = False  # when it was to be ended: it waited, and could never go on
    ended_by_supervisor: bool = False
    dump: bytearray = field(default_factory=bytearray)
    protocol_error: str = ""
    stopped: bool = False  # by a signal, when it was to be ended
    lost: str = ""  # why its host is gone
    killed: str = ""  # by whom, perhaps

    @property
    def settled(self) -> bool:
        return self.gone or (self.report is not None and not self.protocol_error)

    @property
    def why_unreported(self) -> str:
        """What is known of why the rank sent no report."""
        if self.lost:
            return self.lost
        if not self.protocol_error and self.reader.within:
            return f"{_NO_REPORT}: a part of a message"
        stopped = f"its process was {STOPPED}" if self.stopped else ""
        return self.protocol_error or self.too_late or self.killed or stopped


class Supervisor:
    """Supervises one launch. ``run`` is called once and returns when every rank has ended."""

    def __init__(
        self,
        ranks: RankSet,
        outputs: list[Output],
        limits: Limits,
        started: float,
        rules: MergeRules = DEFAULT_RULES,
        clock: Clock = time.monotonic,
        keep: bool = False,
        patient_with: int | None = None,
        heard: CollectedReports | None = None,
    ) -> None:
        self._ranks = ranks
        self._watched = [_Watched(link, out) for link, out in zip(ranks.links, outputs, strict=True)]
        self._limits = limits
        self._started = started
        self._rules = rules
        self._clock = clock
        self._keep = keep
        self._patient_with = patient_with
        self._heard = heard or CollectedReports()
        self._events = FrameReader()
        self._order = 0
        self._server_lost = False
        self._last_dump = 0.0
        self._view = SupervisorView(
            started,
            unsettled=len(self._watched),
            alive=len(self._watched),
            interrupted=self._heard.interrupted,
        )
        self._selector = selectors.DefaultSelector()
        self._deadlocks = DeadlockWatch()
        self._look_at = started + LOOK_EVERY_S

    def run(self) -> JobResult:
        """Watches until all ranks are gone and swept, or with ``keep`` until all have reported."""
        with self._selector:
            self._register()
            for rank, data in self._heard.data.items():
                self._take_reports(self._watched[rank], bytes(data))
            while self._goes_on():
                continue
        for watched in self._watched:
            self._drain(watched)
            watched.output.close()
        outcomes = tuple(self._outcome(w) for w in self._watched)
        interrupted = self._view.interrupted is not None
        unswept = (UNSWEPT,) if self._waits_for_sweep() and all(w.gone for w in self._watched) else ()
        return JobResult(outcomes, tuple(self._ranks.swept or ()), self._server_lost, interrupted, unswept)

    def _goes_on(self) -> bool:
        """Decides, acts and waits once; False at the end. Ctrl-C counts wherever in this it comes."""
        try:
            step = self._decide()
            if step.action in (Action.DONE, Action.GIVE_UP):
                return False
            self._act(step)
            self._see(self._wait_s(step))
        except KeyboardInterrupt:
            if self._view.interrupted is not None:
                raise  # the second Ctrl-C ends the wait at once
            self._view = replace(self._view, interrupted=self._clock())
        return True

    # -- seeing

    def _register(self) -> None:
        read = selectors.EVENT_READ
        self._selector.register(self._ranks.events, read, self._take_events)
        for watched in self._watched:
            self._selector.register(watched.link.channel, read, _bind(self._read_reports, watched))
            self._selector.register(watched.link.output, read, _bind(self._take_output, watched))
            self._selector.register(watched.link.stack, read, _bind(self._take_stack, watched))
        self._ranks.events.setblocking(False)

    def _see(self, timeout_s: float | None) -> None:
        for key, _ in self._selector.select(timeout_s):
            key.data()

    def _wait_s(self, step: NextStep) -> float | None:
        if step.action is not Action.WAIT:
            return 0.0
        until = min(step.until, self._look_at) if self._looks_for_deadlocks() else step.until
        awaited = any(w.ended_for is not None and not w.gone and not w.dump for w in self._watched)
        if (
            self._view.stacks_since is not None
            and self._view.ended is None
            and self._last_dump
            and not awaited
        ):
            until = min(until, self._last_dump + STACKS_QUIET_S)
        return None if math.isinf(until) else max(0.0, until - self._clock())

    def _take_events(self) -> None:
        data = read_available(self._ranks.events.fileno())
        if data is None:
            self._selector.unregister(self._ranks.events)
            if self._ranks.swept is None:
                self._lose_server()
            return
        for frame in self._events.feed(data):
            message = decode(frame)
            if isinstance(message, Exited):
                self._take_exit(message)
            elif isinstance(message, HostLost):
                self._lose(message.ranks, message.why)
            else:
                assert isinstance(message, Swept), message
                self._ranks.swept = message.leaked

    def _lose_server(self) -> None:
        """Records that the server died, with which the kernel ends its ranks."""
        self._server_lost = True
        self._lose(range(len(self._watched)), "")

    def _lose(self, ranks: Sequence[int], why: str) -> None:
        """Records that ranks are gone without an exit that anybody could see."""
        for watched in (self._watched[rank] for rank in ranks):
            if not watched.gone:
                self._read_reports(watched)
                self._drain(watched)
                watched.lost = why
                self._settle(watched)
                watched.gone = True

    def _take_exit(self, message: Exited) -> None:
        watched = self._watched[message.rank]
        self._read_reports(watched)  # a report that the rank sent before its exit counts, and comes first
        self._drain(watched)
        watched.code, watched.peak_memory = message.code, message.peak_memory
        if not watched.ended_by_supervisor:
            watched.killed = self._ranks.why_killed(message.code)
        self._settle(watched)
        watched.gone = True

    def _settle(self, watched: _Watched) -> None:
        """Gives a rank that ended without a report an outcome: it crashed, or the supervisor ended it."""
        if watched.report is None:
            status = ended_as(watched.ended_for) or Status.CRASHED
            status = Status.DEADLOCKED if watched.deadlocked else status
            self._note(watched, self._unreported(watched, status, watched.why_unreported))

    def _unreported(self, watched: _Watched, status: Status, note: str) -> RankOutcome:
        """The outcome of a rank that sent no report."""
        began_s = max(self._started, call_log.read_head(watched.link.log).began_s or 0.0)
        return RankOutcome(
            watched.link.rank,
            status,
            subtests=tuple(watched.subtests),
            exit_code=watched.code,
            note=note,
            started_s=began_s,
            duration_s=max(0.0, self._clock() - began_s),
        )

    def _read_reports(self, watched: _Watched) -> None:
        """Reads all that the channel holds; stops watching it at its end or after an invalid frame."""
        while watched.protocol_error == "":
            data = read_available(watched.link.channel.fileno())
            if not data:
                if data is None:
                    self._forget(watched.link.channel)
                return
            self._take_reports(watched, data)

    def _take_reports(self, watched: _Watched, data: bytes) -> None:
        try:
            for frame in watched.reader.feed(data):
                self._take_message(watched, decode(frame))
        except ProtocolError as error:
            watched.protocol_error = f"{_NO_REPORT}: {error}"[:300]
            self._forget(watched.link.channel)

    def _take_message(self, watched: _Watched, message: Message) -> None:
        """Records what a rank says; ProtocolError for what no rank says, or for more than a rank says."""
        watched.messages += 1
        if watched.messages > MOST_SUBTESTS + 1:
            raise ProtocolError(f"more than {MOST_SUBTESTS} failed sub-tests and a report")
        if isinstance(message, Report) and message.outcome.rank == watched.link.rank:
            if message.outcome.status not in _REPORTED:
                raise ProtocolError(f"a report of {message.outcome.status.value}")
            self._take_report(watched, message.outcome)
        elif isinstance(message, SubtestFailed) and message.rank == watched.link.rank:
            self._note_subtest(watched, message.subtest)
        else:
            raise ProtocolError(f"a rank sent {type(message).__name__}")

    def _take_report(self, watched: _Watched, outcome: RankOutcome) -> None:
        """Takes a rank's first report, unless its outcome is fixed already.

        A signal that asks for a stack interrupts a system call of the rank, which then may pass or fail for
        no other reason. So what is reported after that is a note only.
        """
        if watched.report is None and watched.ended_for is not None:
            watched.too_late = watched.too_late or reported_too_late(outcome)
        elif watched.report is None:
            self._note(watched, outcome)

    def _note(self, watched: _Watched, outcome: RankOutcome) -> None:
        watched.report = replace(outcome, order=self._place(watched), at_s=self._clock())

    def _note_subtest(self, watched: _Watched, subtest: SubtestOutcome) -> None:
        """Records a failed sub-test, which starts no grace period: the rank and its peers go on.

        One that fails after the rank's outcome was fixed is ignored.
        """
        if watched.ended_for is None:
            watched.subtests.append(subtest)
            self._place(watched)

    def _place(self, watched: _Watched) -> int:
        """The rank's place in the order in which ranks first failed or reported."""
        if watched.order is None:
            watched.order = self._order
            self._order += 1
        return watched.order

    def _forget(self, what: object) -> None:
        if what in self._selector.get_map():
            self._selector.unregister(what)  # type: ignore[arg-type]  # a socket or descriptor that we registered

    def _take_output(self, watched: _Watched) -> None:
        data = read_available(watched.link.output)
        if data is None:
            self._forget(watched.link.output)
        else:
            watched.output.feed(data)

    def _take_stack(self, watched: _Watched) -> None:
        data = read_available(watched.link.stack)
        if data is None:
            self._forget(watched.link.stack)
        elif len(watched.dump) < stacks.STACK_BYTES:
            watched.dump += data
            self._last_dump = self._clock()

    def _drain(self, watched: _Watched) -> None:
        """Reads what the pipes hold now; a process that the rank left may keep them open for longer."""
        for _ in range(DRAIN_READS):
            output, dump = read_available(watched.link.output), read_available(watched.link.stack)
            if not (output or dump):
                return
            watched.output.feed(output or b"")
            watched.dump += dump or b""

    # -- deciding

    def _decide(self) -> NextStep:
        # A rank whose channel carried an invalid frame will never report: it counts as failed from now on.
        bad = [w for w in self._watched if self._is_bad(w)]
        skips = [w.report for w in self._watched if w.report and w.report.status is Status.SKIPPED]
        now = self._clock()
        doomed = any(w.ended_for is not None and not w.gone for w in self._watched)
        all_gone = all(w.gone for w in self._watched)  # only the server's Swept message is still missing
        if (
            self._keep
            and self._view.interrupted is None
            and all(w.report is not None and not w.gone for w in self._watched)
        ):
            return NextStep(Action.DONE)
        self._view = replace(
            self._view,
            started=self._began(now),
            unsettled=sum(not w.settled for w in self._watched),
            alive=sum(not w.gone for w in self._watched) or int(self._waits_for_sweep()),
            first_bad=self._view.first_bad or (now if bad else None),
            first_skip=self._view.first_skip or (now if skips else None),
            # Where all ranks that were to be ended have ended by themselves, the normal release follows.
            stacks_since=self._view.stacks_since
            if doomed or all_gone or self._view.ended is not None
            else None,
            stacks_taken=all_gone or (doomed and self._all_dumped(now)),
        )
        if self._debugging():
            return NextStep(Action.WAIT)
        if self._looks_for_deadlocks() and now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            self._look_for_deadlocks(now)
        return decide(self._view, self._limits, now)

    def _looks_for_deadlocks(self) -> bool:
        """Whether a deadlock would be news: ranks still run, and none of them is being ended."""
        view = self._view
        reasons = (view.stacks_since, view.interrupted, view.ended)
        return view.unsettled > 0 and view.deadlocked is None and all(at is None for at in reasons)

    def _look_for_deadlocks(self, now: float) -> None:
        """Has the ranks ended where some can never go on; after a failure or a skip, where none can."""
        remote = bool(self._ranks.hosts)
        ranks = [WatchedRank(w.link.rank, w.link.log, self._pid(w), w.settled, remote) for w in self._watched]
        until = self._view.started + self._limits.timeout_s
        if math.isinf(until):  # of a run without a deadline, a call that gives up soon is no deadlock either
            until = now + TIMEOUT_S
        stuck = {each.rank for each in self._deadlocks.look(ranks, until)}
        alone = why_deadlocked(self._view) is EndReason.DEADLOCK
        if stuck and (alone or all(w.settled or w.link.rank in stuck for w in self._watched)):
            self._view = replace(self._view, deadlocked=now)
            for watched in self._watched:
                watched.deadlocked = alone and watched.link.rank in stuck

    def _began(self, now: float) -> float:
        """When the test began in the last of its ranks: not before now where one of them has yet to begin."""
        began = [call_log.read_head(w.link.log).began_s or now for w in self._watched if not w.settled]
        return min(max([self._started, *began]), self._started + self._limits.start_s)

    def _debugging(self) -> bool:
        """Whether a rank is being debugged, during which there is no deadline."""
        rank = self._patient_with
        return rank is not None and rank < len(self._watched) and not self._watched[rank].settled

    def _waits_for_sweep(self) -> bool:
        return self._ranks.swept is None and not self._server_lost

    def _is_bad(self, watched: _Watched) -> bool:
        if watched.protocol_error:
            return True
        report = watched.report
        if report is None or watched.ended_for is not None:
            return False
        if report.status is not Status.CRASHED:
            return report.bad
        if self._rules.any_exit:
            return False
        # A rank that has reported sys.exit but not yet exited may still exit with the expected code.
        return self._rules.expected_exit is None or (
            watched.gone and watched.code != self._rules.expected_exit
        )

    def _all_dumped(self, now: float) -> bool:
        doomed = [w for w in self._watched if w.ended_for is not None and not w.gone]
        if all(stacks.looks_complete(bytes(w.dump)) or not doomed for w in doomed):
            return True
        return (
            bool(self._last_dump) and all(w.dump for w in doomed) and now - self._last_dump >= STACKS_QUIET_S
        )

    # -- acting

    def _act(self, step: NextStep) -> None:
        now = self._clock()
        if step.action is Action.RELEASE:
            self._release()
            self._view = replace(self._view, released=now)
        elif step.action is Action.TAKE_STACKS and self._ranks.end_stopped_server():
            self._lose_server()
        elif step.action is Action.TAKE_STACKS:
            self._look(step.why)
            self._view = replace(self._view, stacks_since=now)
        elif step.action is Action.END:
            self._end()
            self._view = replace(self._view, ended=now)
        elif step.action is Action.KILL:
            self._kill()
            self._view = replace(self._view, killed=now)

    def _release(self) -> None:
        for watched in self._watched:
            if not watched.gone:
                self._ranks.release(watched.link.rank)

    def _look(self, why: EndReason | None) -> None:
        """Fixes the outcomes of the ranks that have to be ended, and requests their stack dumps.

        What they reported until now counts, even if this process comes late to read it.
        """
        assert why is not None
        for watched in self._watched:
            self._read_reports(watched)
        doomed = [
            w
            for w in self._watched
            if not w.gone and (why in (EndReason.EXIT, EndReason.INTERRUPT) or not w.settled)
        ]
        for watched in doomed:
            watched.ended_for = why
            watched.calls = call_log.read(watched.link.log)
        for watched in doomed:
            self._ranks.signal(watched.link.rank, RANK_STACKS)

    def _is_stopped(self, watched: _Watched) -> bool:
        if not self._ranks.hosts:
            return posix.is_stopped(self._pid(watched))
        seen = call_log.read_observation(watched.link.log)
        return seen is not None and seen.stopped

    def _end(self) -> None:
        """Sends SIGTERM to the marked ranks; releases the others, which have reported."""
        for watched in self._watched:
            if watched.gone:
                continue
            if watched.ended_for is None:
                self._ranks.release(watched.link.rank)
            else:
                watched.ended_by_supervisor = True
                watched.stopped = self._is_stopped(watched)
                self._ranks.signal(watched.link.rank, signal.SIGTERM)

    def _kill(self) -> None:
        for watched in self._watched:
            if not watched.gone:
                watched.ended_by_supervisor = True  # the supervisor causes its exit code from now on
                self._ranks.signal(watched.link.rank, signal.SIGKILL, group=True)

    # -- concluding

    def _outcome(self, watched: _Watched) -> RankOutcome:
        report = watched.report
        if report is None:  # still alive, even after SIGKILL
            report = self._unreported(watched, Status.TIMED_OUT, "does not die")
            report = replace(report, order=self._place(watched))
        if watched.ended_for is EndReason.EXIT:
            report = hung_at_exit(report)
        elif exited_wrongly(report, watched.code, watched.ended_by_supervisor):
            note = "; ".join(filter(None, (f"after its test had {report.status.value}", watched.killed)))
            report = replace(report, status=Status.CRASHED, phase="exit", note=note)
        if watched.protocol_error:
            report = replace(report, status=Status.CRASHED, note=watched.protocol_error)
        report = replace(
            report,
            exit_code=watched.code if watched.gone else report.exit_code,
            peak_memory=watched.peak_memory,
            pid=report.pid or self._pid(watched),
            output=watched.output.text(),
            log=str(watched.output.log_path) if watched.output.log_path else None,
            stack=stacks.readable(bytes(watched.dump)),
            calls=call_log.read(watched.link.log) if watched.calls is None else watched.calls,
        )
        return self._ranks.located(report)

    def _pid(self, watched: _Watched) -> int:
        return self._ranks.pids[watched.link.rank]


def _bind(method: Callable[[_Watched], None], watched: _Watched) -> Callable[[], None]:
    return lambda: method(watched)
