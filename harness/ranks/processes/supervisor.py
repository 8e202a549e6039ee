"""The supervisor of rank processes: watches one test's ranks until each has ended.

One loop in the calling thread waits for everything at once: reports, exits, output, stack dumps and the next
deadline. ``deadlines.decide`` decides what to do when; this module looks and acts.
What was seen of each rank, and the outcome that is made of it, is an ``ObservedRank``.
"""

from __future__ import annotations

import itertools
import math
import selectors
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.communication import call_log
from harness.outcomes import Status
from harness.protocol import Exited, HostLost, Swept, decode
from harness.rank_merging import DEFAULT_RULES, MergeRules
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
from harness.ranks.job import UNSWEPT, JobResult
from harness.ranks.processes import stacks
from harness.ranks.processes.deadlock_watch import LOOK_EVERY_S, DeadlockWatch, WatchedRank
from harness.ranks.processes.fast_path import CollectedReports
from harness.ranks.processes.observed_rank import Clock, ObservedRank
from harness.ranks.processes.output import Output
from harness.ranks.processes.rank_set import RankSet
from harness.settings import TIMEOUT_S
from harness.system.signals import RANK_STACKS
from harness.wire import FrameReader, read_available


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
        places = itertools.count()
        self._watched = [
            ObservedRank(
                *(link, out, ranks.pids[link.rank], bool(ranks.hosts), started, clock, places.__next__),
                ranks.turn,
            )
            for link, out in zip(ranks.links, outputs, strict=True)
        ]
        self._limits = limits
        self._started = started
        self._rules = rules
        self._clock = clock
        self._keep = keep
        self._patient_with = patient_with
        self._heard = heard or CollectedReports()
        self._events = FrameReader()
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
                self._take_heard(self._watched[rank], bytes(data))
            while self._goes_on():
                continue
        for watched in self._watched:
            watched.drain()
            watched.output.close()
        outcomes = tuple(self._ranks.located(w.outcome()) for w in self._watched)
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
        awaited = any(w.doomed and not w.dump for w in self._watched)
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
                watched.lose(why)

    def _take_exit(self, message: Exited) -> None:
        watched = self._watched[message.rank]
        self._read_reports(watched)  # a report that the rank sent before its exit counts, and comes first
        killed = "" if watched.ended_by_supervisor else self._ranks.why_killed(message.code)
        watched.exited(message.code, message.peak_memory, killed)

    def _read_reports(self, watched: ObservedRank) -> None:
        """Reads all that the channel holds; stops watching it at its end or after an invalid frame."""
        if not watched.read_reports():
            self._forget(watched.link.channel)

    def _take_heard(self, watched: ObservedRank, data: bytes) -> None:
        """Takes what the fast path had read of a channel; more of it is read in its turn."""
        watched.take(data)
        if watched.protocol_error:
            self._forget(watched.link.channel)

    def _forget(self, what: object) -> None:
        if what in self._selector.get_map():
            self._selector.unregister(what)  # type: ignore[arg-type]  # a socket or descriptor that we registered

    def _take_output(self, watched: ObservedRank) -> None:
        data = read_available(watched.link.output)
        if data is None:
            self._forget(watched.link.output)
        else:
            watched.output.feed(data)

    def _take_stack(self, watched: ObservedRank) -> None:
        data = read_available(watched.link.stack)
        if data is None:
            self._forget(watched.link.stack)
        elif len(watched.dump) < stacks.STACK_BYTES:
            watched.dump += data
            self._last_dump = self._clock()

    # -- deciding

    def _decide(self) -> NextStep:
        bad = any(w.is_bad(self._rules) for w in self._watched)
        skips = [w.report for w in self._watched if w.report and w.report.status is Status.SKIPPED]
        now = self._clock()
        doomed = any(w.doomed for w in self._watched)
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
        ranks = [WatchedRank(w.link.rank, w.link.log, w.pid, w.settled, w.remote) for w in self._watched]
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

    def _all_dumped(self, now: float) -> bool:
        doomed = [w for w in self._watched if w.doomed]
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
            watched.fix(why)
        for watched in doomed:
            self._ranks.signal(watched.link.rank, RANK_STACKS)

    def _end(self) -> None:
        """Sends SIGTERM to the marked ranks; releases the others, which have reported."""
        for watched in self._watched:
            if watched.gone:
                continue
            if watched.ended_for is None:
                self._ranks.release(watched.link.rank)
            else:
                watched.ended_by_supervisor = True
                watched.stopped = watched.is_stopped()
                self._ranks.signal(watched.link.rank, signal.SIGTERM)

    def _kill(self) -> None:
        for watched in self._watched:
            if not watched.gone:
                watched.ended_by_supervisor = True  # the supervisor causes its exit code from now on
                self._ranks.signal(watched.link.rank, signal.SIGKILL, group=True)


def _bind(method: Callable[[ObservedRank], None], watched: ObservedRank) -> Callable[[], None]:
    return lambda: method(watched)
