"""``Session``: the main loop of a run, from its first worker to its last record.

    plan (attempts to make) -> queue (batches that fit now) -> workers
      ^                                                           |
      +- rerun? -- journal <- record <- test ended, worker gone --+

It has a single thread, which waits for all events at once. A test is in the journal before reporters announce
it as finished.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from harness.record import TestRecord, on_host
from harness.report.base import TestStarted
from harness.runner.journal import Journal
from harness.runner.look_requests import Looks
from harness.runner.messages import Item
from harness.runner.other_hosts import OtherHosts
from harness.runner.reporters import Reporters
from harness.runner.scheduling.device_pool import DevicePool
from harness.runner.scheduling.plan import Attempt, Plan
from harness.runner.scheduling.queue import Queue
from harness.runner.scheduling.shuffle import ordered
from harness.runner.scheduling.unit import Unit
from harness.runner.scheduling.work_sharing import WorkSharing
from harness.runner.session_setup import Setup
from harness.runner.workers.controller_records import cut_short, never_began
from harness.runner.workers.events import (
    DebuggerChanged,
    Event,
    HostReady,
    HostUnusable,
    Notice,
    TestEnded,
    WorkerGone,
    ZygoteGone,
)
from harness.runner.workers.worker_state import Cause, Worker
from harness.runner.workers.workers import Workers
from harness.runner.workers.zygote_owner import ZygoteOwner

# Seconds between the reporters' ticks, so that a person sees that the run goes on.
TICK_S = 1.0
# A test whose worker died with the zygote runs again, until this has happened so often: then it is an error.
MOST_ZYGOTES_A_TEST = 2


class Session:
    """Runs a plan.

    ``records`` are all attempts, in the order in which they ended. ``interrupted`` is True after a signal
    has ended the run, and ``debugging`` while a debugger in a worker has the terminal.
    """

    def __init__(
        self,
        setup: Setup,
        plan: Plan,
        zygote_owner: ZygoteOwner,
        workers: Workers,
        journal: Journal | None,
        reporters: Reporters,
        looks: Looks | None = None,
        hosts: OtherHosts | None = None,
    ) -> None:
        """``looks`` are the requests of a person who wants to see what runs; None: nobody is heard.

        ``hosts`` are the others of a run over several.
        """
        self._setup = setup
        self._looks = looks
        self._began_s = time.monotonic()
        self._plan = plan
        self._zygote_owner, self._workers = zygote_owner, workers
        self._journal, self._reporters = journal, reporters
        self._queue = Queue(
            setup.capacity, setup.timings, isolate=setup.isolate, reruns_first=plan.policy.failfast
        )
        self._hosts = hosts
        self._devices = DevicePool(setup.devices)
        self._batch_of: dict[str, int] = {}  # worker's name -> batch key
        self._labels: set[int] = set()
        self._sharing = WorkSharing(setup.units, setup.timings)
        self._next_seq = 0
        self._zygotes_lost: Counter[str] = Counter()
        self._settled: frozenset[str] = frozenset()  # ids whose records need no worker
        self._stopping = False
        self.interrupted = False
        self.debugging = False
        self.records: list[TestRecord] = []

    # -- the run

    def run(self, ready: Iterable[TestRecord], asked_to_end: Callable[[], bool]) -> None:
        """Makes all attempts of the plan.

        ``ready`` are the records of tests that need no worker. ``asked_to_end`` says whether a signal
        or a time limit of the whole run asks for its end.
        """
        at_hand = {record.id: record for record in ready}
        self._settled = frozenset(at_hand)
        if self._hosts is not None:
            self._hosts.begin(self._zygote_owner.imported, self._workers)
        self._await_hosts(asked_to_end)
        next_tick_s = time.monotonic() + TICK_S
        while self._go_on(at_hand):
            until_s = min(next_tick_s, self._queue.next_due_s, self._sharing.next_look_s)
            for event in self._workers.wait(until_s):
                self._handle(event)
            self._look()
            now = time.monotonic()
            if now >= next_tick_s:
                if not self._setup.options.terminal:  # a debugger's prompt may stand there
                    self._reporters.tick(now)
                if self._hosts is not None:
                    self._hosts.look_for_lost(self._workers, self._reporters.message)
                next_tick_s = now + TICK_S
            if asked_to_end() and not self.interrupted:
                self._interrupt()

    def _look(self) -> None:
        """Begins a look at the run that a person has asked for, and shows the one that is ready."""
        if self._looks is None:
            return
        if self._looks.asked:
            from harness.look.report import SeenTest  # see look_requests

            running = [w for w in self._workers.all if w.current is not None]
            tests = [SeenTest(w.current.id, w.pid, w.began_s, w.label) for w in running if w.current]
            self._looks.begin(tests, len(self.records), self._began_s)
        lines = self._looks.answers()
        if lines:
            self._reporters.show(lines)

    def _await_hosts(self, asked_to_end: Callable[[], bool]) -> None:
        """Waits for other hosts where tests need accelerators that may be there."""
        units = self._setup.units.values()
        while self._hosts is not None and self._hosts.awaited(units) and not asked_to_end():
            for event in self._workers.wait(time.monotonic() + TICK_S):
                self._handle(event)
        for line in self._hosts.left_out(units) if self._hosts is not None else ():
            self._reporters.message(line)

    def _go_on(self, ready: Mapping[str, TestRecord]) -> bool:
        """Starts the batches that can start; returns False where the run is over."""
        while True:
            if not self._stopping:
                try:
                    self._fill()
                    self._share(time.monotonic())
                except KeyboardInterrupt:  # while a new zygote imported the modules
                    self._interrupt()
            if len(self._workers) or (not self._stopping and self._queue.next_due_s < float("inf")):
                return True
            if self._stopping or not self._begin_round(ready):
                return False

    def _begin_round(self, ready: Mapping[str, TestRecord]) -> bool:
        attempts = {a.id: a for a in self._plan.next_round()}
        number = next((a.repeat for a in attempts.values()), 0)
        for test_id in [i for i in attempts if i in ready]:
            self._take(ready[test_id], attempts.pop(test_id))
        units = [unit for unit in self._setup.units.values() if unit.id not in ready]
        turns = [unit for unit in ordered(units, self._setup.shuffle, number) if unit.id in attempts]
        self._queue.add([(unit, attempts[unit.id]) for unit in turns])
        return bool(attempts)

    def _fill(self) -> None:
        """Starts a worker for every batch that fits now."""
        for key, turns in self._queue.start(time.monotonic()):
            self._start(key, [self._item(unit, attempt) for unit, attempt in turns])

    def _share(self, now_s: float) -> None:
        """Takes tests back from busy workers while slots are idle and that pays, and starts them."""
        for taken in self._sharing.take_back(self._workers, self._queue, now_s):
            self._queue.add([(self._setup.units[item.id], item.attempt) for item in taken])
            self._fill()

    def _item(self, unit: Unit, attempt: Attempt) -> Item:
        self._next_seq += 1
        return Item(self._next_seq, unit.module, attempt, unit.demand.ranks)

    def _start(self, key: int, items: Sequence[Item]) -> None:
        """Starts a worker for a batch, or for the remaining tests of a batch."""
        host = self._queue.host_of(key)
        if not host and not self._workers.has_zygote():
            self._workers.use(self._zygote_owner.zygote(self._reporters.message))
        number = next(n for n in itertools.count(1) if n not in self._labels)
        self._labels.add(number)
        units = self._setup.units
        limits = [(item, self._setup.limits.of(units[item.id])) for item in items]
        if self._hosts is not None:
            environ = self._hosts.variables([units[item.id] for item in items], key, host)
        else:
            accelerators = max(units[item.id].demand.accelerators for item in items)
            environ = self._devices.environ(key, accelerators)
        options = self._setup.options_for(items, environ)
        name = self._workers.start(f"{number}@{host}" if host else str(number), limits, options, host)
        self._batch_of[name] = key

    # -- what happens

    def _handle(self, event: Event) -> None:
        if isinstance(event, TestStarted):
            self._reporters.test_started(event)
        elif isinstance(event, TestEnded):
            record = replace(event.record, output=event.output, worker=event.worker.label)
            self._take(self._located(record, event.worker), event.item.attempt, event.worker)
        elif isinstance(event, WorkerGone):
            self._gone(event)
        elif isinstance(event, ZygoteGone | HostReady | HostUnusable) and event.host:
            assert self._hosts is not None
            self._hosts.heed(event, self._workers, self._reporters.message)
            self._queue.offer(self._hosts.capacity)
        elif isinstance(event, ZygoteGone):
            self._reporters.message(f"the process that forks workers died: {event.reason}; starting another")
            self._zygote_owner.lost()
        elif isinstance(event, Notice):
            self._reporters.message(event.text)
        else:
            assert isinstance(event, DebuggerChanged), event
            self.debugging = event.on

    def _take(self, record: TestRecord, attempt: Attempt, worker: Worker | None = None) -> None:
        """Adds a finished attempt to the plan and the journal, then to the reporters, and queues its rerun.

        ``worker`` is the worker that made the attempt, None where there was none or it has ended.
        """
        unit = self._setup.units[record.id]
        import_s = self._zygote_owner.import_s.pop(unit.module, None)  # for the module's first record
        record = self._plan.take(self._setup.completed(record, attempt, import_s))
        self._write(record)
        self.records.append(record)
        self._sharing.pace.add(unit, record)
        self._reporters.test_finished(record)
        again = self._plan.rerun(record)
        if self._plan.stop:
            self._stop(leaving=worker)
        elif again is not None and record.id in self._settled:
            self._take(record, again)
        elif again is not None:
            wait_s = self._plan.policy.reruns_of(record.id).wait_s(record.attempt)
            self._queue.rerun((unit, again), time.monotonic() + wait_s)

    def _write(self, record: TestRecord) -> None:
        if self._journal is None or self._journal.failure is not None:
            return
        self._journal.add(record)
        if self._journal.failure is not None:
            self._reporters.trouble(
                f"the journal cannot be written: {self._journal.failure}; the run goes on, "
                f"results are kept in memory until the reports are written"
            )

    # -- workers' ends

    def _gone(self, event: WorkerGone) -> None:
        """Reports the test that was running, and runs the rest of the batch in another worker.

        The rest waits where a rerun has to run first.
        """
        worker = event.worker
        self._labels.discard(int(worker.label.partition("@")[0]))
        key = self._batch_of.pop(worker.name)
        rest = list(worker.waiting)
        if event.running is not None:
            rest[:0] = self._report_running(worker, event.running, event.output)
        elif rest and not worker.ended_any and worker.cause in (Cause.CRASH, Cause.GARBLED):
            first = rest.pop(0)
            record = never_began(self._setup.units[first.id], worker, event.output)
            self._take(self._located(record, worker), first.attempt)
        if not rest or self._stopping:
            self._queue.done(key)
            self._give_back(key)
        elif self._hosts is not None and not self._hosts.is_there(worker.host):
            self._queue.done(key)
            self._give_back(key)
            self._queue.add([(self._setup.units[item.id], item.attempt) for item in rest])
        elif self._queue.holding:
            self._give_back(key)
            self._queue.put_back(key, [(self._setup.units[item.id], item.attempt) for item in rest])
        else:
            self._start(key, rest)

    def _give_back(self, key: int) -> None:
        """A batch has ended, and its devices are free."""
        self._devices.give_back(key)
        if self._hosts is not None:
            self._hosts.give_back(key)

    def _report_running(self, worker: Worker, item: Item, output: str) -> list[Item]:
        """Reports the test that was running when its worker ended; returns it where it has to run again."""
        if worker.cause is Cause.ZYGOTE:
            self._zygotes_lost[item.id] += 1
            if self._zygotes_lost[item.id] < MOST_ZYGOTES_A_TEST:
                return [item]
        if worker.cause is Cause.STOPPED and not self.interrupted:
            return []  # ended because another test failed: it counts as not run
        unit = self._setup.units[item.id]
        record = cut_short(unit, worker, output, self._setup.limits.of(unit))
        self._take(self._located(record, worker), item.attempt)
        return []

    def _located(self, record: TestRecord, worker: Worker) -> TestRecord:
        """The record with its worker's host, in a run over several."""
        return record if self._hosts is None else on_host(record, worker.host or self._hosts.own)

    # -- stopping

    def _interrupt(self) -> None:
        """Ends the run for the user's signal; the records of running tests have their stacks."""
        self.interrupted = True
        self._reporters.message("interrupted: ending the running tests; once more ends the run at once")
        self._stop()
        self._end(self._workers.all)

    def _stop(self, leaving: Worker | None = None) -> None:
        """Starts nothing more and ends all workers, except the one that is ``leaving``.

        That worker ends its batch itself, because its test failed, and closes the servers that it has
        started.
        """
        if self._stopping:
            return
        self._stopping = True
        self._queue.stop()
        self._end(worker for worker in self._workers.all if worker is not leaving)

    def _end(self, workers: Iterable[Worker]) -> None:
        for worker in workers:
            self._workers.end(worker, Cause.STOPPED)
