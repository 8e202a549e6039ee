"""``ObservedRank``: what the supervisor has seen of one rank, and the outcome that is made of it.

It checks what comes on the rank's channel (whose it is, and how many messages), and keeps the first report,
what the rank printed, the dump of its stacks and how it ended. The supervisor decides when a rank is to be
ended, and ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from harness.communication import call_log
from harness.communication_call import Call
from harness.errors import ProtocolError
from harness.outcomes import RankOutcome, Status, SubtestOutcome
from harness.protocol import Message, Report, SubtestFailed, decode
from harness.rank_merging import MergeRules
from harness.ranks.deadlines import EndReason
from harness.ranks.exit_rules import ended_as, exited_wrongly, hung_at_exit, reported_too_late
from harness.ranks.processes import stacks
from harness.ranks.processes.channel import MOST_SUBTESTS
from harness.ranks.processes.output import Output
from harness.ranks.processes.rank_set import RankLink
from harness.system import posix
from harness.system.server_process import STOPPED
from harness.wire import MAX_REPORT_BYTES, FrameReader, read_available

# This many reads empty even a pipe of the kernel's largest size, 1 MiB. Output after that is not the rank's,
# but that of a process which it started and which still prints.
DRAIN_READS = 16

# What a rank may say of its test. Any other end is for its parent to see.
_REPORTED = frozenset({Status.PASSED, Status.SKIPPED, Status.FAILED, Status.ERROR, Status.CRASHED})
_NO_REPORT = "its channel carried something that is no report"

Clock = Callable[[], float]


@dataclass(slots=True)
class ObservedRank:
    """What is known of one rank until now.

    ``remote``: its process is on another host. ``started`` is when the ranks were started, in seconds of
    ``clock``. ``next_place`` counts the first failures and reports of all ranks of the test. ``turn`` is that
    of the test.
    """

    link: RankLink
    output: Output
    pid: int
    remote: bool
    started: float
    clock: Clock
    next_place: Callable[[], int]
    turn: int = 0
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
    calls: Sequence[Call] | None = None  # its communication calls until then, if any
    deadlocked: bool = False  # when it was to be ended: it waited, and could never go on
    ended_by_supervisor: bool = False
    dump: bytearray = field(default_factory=bytearray)
    protocol_error: str = ""
    stopped: bool = False  # by a signal, when it was to be ended
    lost: str = ""  # why its host is gone
    killed: str = ""  # by whom, perhaps

    # -- what it is

    @property
    def settled(self) -> bool:
        """Whether nothing more is to be expected of it: it has reported, or is gone."""
        return self.gone or (self.report is not None and not self.protocol_error)

    @property
    def doomed(self) -> bool:
        """Whether it is being ended, and is not gone yet."""
        return self.ended_for is not None and not self.gone

    def is_bad(self, rules: MergeRules) -> bool:
        """Whether its test has failed in it, by what is known until now.

        A rank whose channel carried an invalid frame will never report: it counts as failed.
        """
        if self.protocol_error:
            return True
        report = self.report
        if report is None or self.ended_for is not None:
            return False
        if report.status is not Status.CRASHED:
            return report.bad
        if rules.any_exit:
            return False
        # A rank that has reported sys.exit but not yet exited may still exit with the expected code.
        return rules.expected_exit is None or (self.gone and self.code != rules.expected_exit)

    def is_stopped(self) -> bool:
        """Whether a signal has stopped its process."""
        if not self.remote:
            return posix.is_stopped(self.pid)
        seen = call_log.read_observation(self.link.log)
        return seen is not None and seen.stopped

    # -- what it says

    def read_reports(self) -> bool:
        """Takes all that its channel holds; False at its end and after an error, when no more is read."""
        while not self.protocol_error:
            data = read_available(self.link.channel.fileno())
            if not data:
                return data is not None
            self.take(data)
        return False

    def take(self, data: bytes) -> None:
        """Takes bytes of its channel; what is no message of a rank is its ``protocol_error``."""
        try:
            for frame in self.reader.feed(data):
                self._take_message(decode(frame))
        except ProtocolError as error:
            self.protocol_error = f"{_NO_REPORT}: {error}"[:300]

    def _take_message(self, message: Message) -> None:
        """Records what a rank says; ProtocolError for what no rank says, or for more than a rank says.

        What a pooled rank says of another test than this one is passed over: a rank whose test had sent a
        report of its own says how that test ended when the next one may have begun.
        """
        self.messages += 1
        if self.messages > MOST_SUBTESTS + 1:
            raise ProtocolError(f"more than {MOST_SUBTESTS} failed sub-tests and a report")
        if isinstance(message, Report) and message.outcome.rank == self.link.rank:
            if message.outcome.status not in _REPORTED:
                raise ProtocolError(f"a report of {message.outcome.status.value}")
            if message.turn == self.turn:
                self._take_report(message.outcome)
        elif isinstance(message, SubtestFailed) and message.rank == self.link.rank:
            if message.turn == self.turn:
                self._note_subtest(message.subtest)
        else:
            raise ProtocolError(f"a rank sent {type(message).__name__}")

    def _take_report(self, outcome: RankOutcome) -> None:
        """Takes a rank's first report, unless its outcome is fixed already.

        A signal that asks for a stack interrupts a system call of the rank, which then may pass or fail for
        no other reason. So what is reported after that is a note only.
        """
        if self.report is None and self.ended_for is not None:
            self.too_late = self.too_late or reported_too_late(outcome)
        elif self.report is None:
            self._note(outcome)

    def _note(self, outcome: RankOutcome) -> None:
        self.report = replace(outcome, order=self._place(), at_s=self.clock())

    def _note_subtest(self, subtest: SubtestOutcome) -> None:
        """Records a failed sub-test, which starts no grace period: the rank and its peers go on.

        One that fails after the rank's outcome was fixed is ignored.
        """
        if self.ended_for is None:
            self.subtests.append(subtest)
            self._place()

    def _place(self) -> int:
        """The rank's place in the order in which ranks first failed or reported."""
        if self.order is None:
            self.order = self.next_place()
        return self.order

    def drain(self) -> None:
        """Reads what the pipes hold now; a process that the rank left may keep them open for longer."""
        for _ in range(DRAIN_READS):
            output, dump = read_available(self.link.output), read_available(self.link.stack)
            if not (output or dump):
                return
            self.output.feed(output or b"")
            self.dump += dump or b""

    # -- how it ends

    def fix(self, why: EndReason) -> None:
        """Fixes the outcome of a rank that is to be ended, before any signal; later reports are notes."""
        self.ended_for = why
        self.calls = call_log.read(self.link.log)

    def exited(self, code: int, peak_memory: int | None, killed: str) -> None:
        """Records its exit, after its last report was read. ``killed`` is what is known of who killed it."""
        self.drain()
        self.code, self.peak_memory, self.killed = code, peak_memory, killed
        self._settle()

    def lose(self, why: str) -> None:
        """Records that it is gone without an exit that anybody could see, after its last report was read."""
        self.drain()
        self.lost = why
        self._settle()

    def _settle(self) -> None:
        """Gives a rank that ended without a report an outcome: it crashed, or the supervisor ended it."""
        if self.report is None:
            status = ended_as(self.ended_for) or Status.CRASHED
            status = Status.DEADLOCKED if self.deadlocked else status
            self._note(self._unreported(status, self._why_unreported()))
        self.gone = True

    def _unreported(self, status: Status, note: str) -> RankOutcome:
        """The outcome of a rank that sent no report."""
        began_s = max(self.started, call_log.read_head(self.link.log).began_s or 0.0)
        return RankOutcome(
            self.link.rank,
            status,
            subtests=tuple(self.subtests),
            exit_code=self.code,
            note=note,
            started_s=began_s,
            duration_s=max(0.0, self.clock() - began_s),
        )

    def _why_unreported(self) -> str:
        """What is known of why the rank sent no report."""
        if self.lost:
            return self.lost
        if not self.protocol_error and self.reader.within:
            return f"{_NO_REPORT}: a part of a message"
        stopped = f"its process was {STOPPED}" if self.stopped else ""
        return self.protocol_error or self.too_late or self.killed or stopped

    def outcome(self) -> RankOutcome:
        """Its outcome at the end, with all that was seen of it; its host is for the rank set to say."""
        report = self.report
        if report is None:  # still alive, even after SIGKILL
            report = self._unreported(Status.TIMED_OUT, "does not die")
            report = replace(report, order=self._place())
        if self.ended_for is EndReason.EXIT:
            report = hung_at_exit(report)
        elif exited_wrongly(report, self.code, self.ended_by_supervisor):
            note = "; ".join(filter(None, (f"after its test had {report.status.value}", self.killed)))
            report = replace(report, status=Status.CRASHED, phase="exit", note=note)
        if self.protocol_error:
            report = replace(report, status=Status.CRASHED, note=self.protocol_error)
        return replace(
            report,
            exit_code=self.code if self.gone else report.exit_code,
            peak_memory=self.peak_memory,
            pid=report.pid or self.pid,
            output=self.output.text(),
            log=str(self.output.log_path) if self.output.log_path else None,
            stack=stacks.readable(bytes(self.dump)),
            calls=call_log.read(self.link.log) if self.calls is None else self.calls,
        )
