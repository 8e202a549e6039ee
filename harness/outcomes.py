"""Outcomes of ranks and of tests, and words for them. ``rank_merging.py`` makes the second of the first."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.communication_call import Call, under_way

# Upstream's exit codes of ranks that failed or skipped, for code that reads a process's exit code.
EXIT_ERROR = 10
EXIT_SKIPPED = 75


class SkipExitCode(int):
    """An exit code by which a test in a rank says that it skips, ``sys.exit(code)``, and the reason."""

    reason: str

    def __new__(cls, code: int, reason: str) -> SkipExitCode:
        self = super().__new__(cls, code)
        self.reason = reason
        return self

    def __reduce__(self) -> tuple[type[SkipExitCode], tuple[int, str]]:
        return (SkipExitCode, (int(self), self.reason))


class Status(str, enum.Enum):
    """How a rank, a sub-test or a whole test ended."""

    PASSED = "passed"
    SKIPPED = "skipped"
    FAILED = "failed"  # an AssertionError
    ERROR = "error"  # any other exception
    CRASHED = "crashed"  # the process ended without an outcome, whatever the exit code
    TIMED_OUT = "timed out"  # still running when the deadline passed
    DEADLOCKED = "deadlocked"  # ranks waited for each other, or for ranks that never come
    ENDED = "ended"  # collateral: ended by the supervisor after another rank's failure
    XFAILED = "expected failure"  # tests only: unittest.expectedFailure, and the test failed
    XPASSED = "unexpected success"  # tests only

    @property
    def bad(self) -> bool:
        """Whether the status can be the root cause of a test that does not pass."""
        return self in _BAD


_BAD = frozenset({Status.FAILED, Status.ERROR, Status.CRASHED, Status.TIMED_OUT, Status.DEADLOCKED})


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An exception in a form that can be sent between processes: always text, where possible a pickle.

    ``type_name`` is qualified unless built in, ``message`` is cut to a bounded length, ``traceback`` is the
    formatted text with causes and groups, ``pickled`` the exception itself (without traceback) or None.
    """

    type_name: str
    message: str
    traceback: str
    is_assertion: bool = False
    pickled: bytes | None = None

    @property
    def headline(self) -> str:
        """The type and the message's first line."""
        first = self.message.strip().split("\n", 1)[0]
        return f"{self.type_name}: {first}" if first else self.type_name


@dataclass(frozen=True, slots=True)
class SubtestOutcome:
    """One ``self.subTest(message, **params)`` of one rank; params are (name, repr) pairs in order."""

    message: str | None
    params: tuple[tuple[str, str], ...]
    status: Status
    error: ErrorInfo | None = None
    skip_reason: str | None = None

    @property
    def key(self) -> tuple[str | None, tuple[tuple[str, str], ...]]:
        """The identity of a sub-test: the n-th with a key on one rank is the n-th with it on another."""
        return (self.message, self.params)

    def __str__(self) -> str:
        """The description as unittest prints it: ``[message] (name=value, ...)``."""
        parts = [f"[{self.message}]"] if self.message is not None else []
        if self.params:
            parts.append("(" + ", ".join(f"{name}={value}" for name, value in self.params) + ")")
        return " ".join(parts) or "(<subtest>)"


@dataclass(frozen=True, slots=True)
class RankOutcome:
    """The outcome of one test on one rank.

    ``exit_code`` is the process's (negative: minus the signal's number), or None while unknown and for ranks
    that are not processes. ``left`` lists what the test left changed in a pooled rank; ``warned`` has the
    Python warnings that it gave in the rank; ``groups_begun`` is the number of process groups that it began
    to make, where the rank keeps one. ``order`` numbers outcomes as the supervisor received them (0 first);
    ``at_s`` is when, on the monotonic clock. ``phase`` is the
    stage that the rank had reached: "start", "test", "cleanup" or "exit"; "turn" where it was in the test and
    waited until the rank thread that ran let it run. ``expected``: the test is decorated
    with ``expectedFailure``, and ``error`` was raised by its method; ``xfailed``: by ``pytest.xfail``.
    ``host`` names the rank's host where ranks run on several, else it is "".
    Durations in seconds, memory in bytes.
    """

    rank: int
    status: Status
    error: ErrorInfo | None = None
    skip_reason: str | None = None
    subtests: tuple[SubtestOutcome, ...] = ()
    exit_code: int | None = None
    duration_s: float = 0.0
    started_s: float | None = None
    peak_memory: int | None = None
    output: str = ""
    calls: Sequence[Call] = ()
    stack: str = ""
    phase: str = "test"
    order: int = 0
    at_s: float = 0.0
    pid: int | None = None
    accepted: tuple[object, ...] = ()
    note: str = ""
    log: str | None = None
    left: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    groups_begun: int = 0
    expected: bool = False
    xfailed: bool = False
    host: str = ""

    @property
    def skipped(self) -> bool:
        """Whether the rank skipped, also where a sub-test or a cleanup failed besides."""
        return self.status is Status.SKIPPED or self.skip_reason is not None

    @property
    def failed_as_expected(self) -> bool:
        """Whether all that went wrong is what ``expectedFailure`` or ``pytest.xfail`` announced."""
        announced = self.expected or self.xfailed
        return announced and self.status in (Status.FAILED, Status.ERROR) and self.phase != "exit"

    @property
    def bad(self) -> bool:
        """Whether the rank or one of its sub-tests went wrong; collateral does not count."""
        return self.status.bad or any(s.status.bad for s in self.subtests)

    @property
    def bad_subtests(self) -> tuple[SubtestOutcome, ...]:
        """The sub-tests that failed or raised, in order."""
        return tuple(s for s in self.subtests if s.status.bad)

    @property
    def under_way(self) -> Call | None:
        """The communication call that the rank was in; None where it was in none."""
        return under_way(self.calls)

    @property
    def bad_beyond_subtests(self) -> bool:
        """Whether something other than sub-tests went wrong."""
        if not self.status.bad:
            return False
        unfinished = self.status in (Status.CRASHED, Status.TIMED_OUT, Status.DEADLOCKED)
        return unfinished or self.error is not None or not self.bad_subtests


@dataclass(frozen=True, slots=True)
class MergedSubtest:
    """The same sub-test over all ranks; ``ranks`` are those with the worst status.

    ``divergence`` says which ranks skipped it and which did not; it is "" where they agree, else the status
    is ERROR and ``ranks`` are all that had it.
    """

    subtest: SubtestOutcome
    ranks: tuple[int, ...]
    divergence: str = ""


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """A whole test: the verdict, its root cause, and the outcome of every rank.

    ``reason`` is one line: the skip's reason, or what went wrong. ``root_cause`` is a rank or None.
    ``warnings`` are lines about what the test left behind, ``communication`` lines about what is wrong with
    its ranks' communication although that did not decide, ``mode`` is the rank mode that it ran in.
    """

    __test__ = False  # not a test class, whatever pytest thinks of the name

    status: Status
    ranks: tuple[RankOutcome, ...] = ()
    root_cause: int | None = None
    reason: str = ""
    subtests: tuple[MergedSubtest, ...] = ()
    warnings: tuple[str, ...] = ()
    communication: tuple[str, ...] = ()
    duration_s: float = 0.0
    mode: str = ""

    def rank(self, number: int) -> RankOutcome:
        """The outcome of one rank; KeyError where there is none."""
        for outcome in self.ranks:
            if outcome.rank == number:
                return outcome
        raise KeyError(number)


# Errors that a rank gets when a peer has ended. Where a peer has crashed, one of these is never the root
# cause, even if it was received before the peer's exit.
_LOST_PEER = (
    "connection closed by peer",
    "connection reset by peer",
    "connection refused",
    "broken pipe",
    "connectfullmesh",
    "socket timeout",
    "recvvalue failed",
    "sendbytes failed",
    "failed to recv",
    "eof (this error originated at tensorpipe",
)


def lost_a_peer(error: ErrorInfo | None) -> bool:
    """Whether the exception only shows that another rank has ended."""
    return error is not None and any(sign in error.message.lower() for sign in _LOST_PEER)


def ranks_text(numbers: Iterable[int]) -> str:
    """Ranks as text: ``rank 1``, ``ranks 0-3``, ``ranks 0, 2, 5-7``."""
    ordered = sorted(set(numbers))
    runs: list[list[int]] = []
    for number in ordered:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    parts: list[str] = []
    for low, high in runs:
        parts += [str(low)] if low == high else [f"{low}-{high}"] if high > low + 1 else [str(low), str(high)]
    return ("rank " if len(ordered) == 1 else "ranks ") + ", ".join(parts)


def exit_text(code: int | None) -> str:
    """An exit code as text: ``exit code 3``, ``signal SIGSEGV``, ``no exit yet``."""
    if code is None:
        return "no exit yet"
    return f"exit code {code}" if code >= 0 else f"signal {signal_name(-code)}"


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; the bare number for one without a name (real-time signals)."""
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def describe(outcome: RankOutcome) -> str:
    """One line about how a rank ended."""
    if outcome.status is Status.CRASHED:
        end = "gone" if outcome.exit_code is None else exit_text(outcome.exit_code)
        text = f"crashed: {end} without an outcome{_after_subtests(outcome)}"
        return f"rank {outcome.rank} {text}" + (f" ({outcome.note})" if outcome.note else "")
    if outcome.status is Status.TIMED_OUT:
        where = " while exiting" if outcome.phase == "exit" else _after_subtests(outcome)
        return f"rank {outcome.rank} timed out{where}" + (f" ({outcome.note})" if outcome.note else "")
    if outcome.error is None and outcome.bad_subtests:
        return f"rank {outcome.rank}: {_count(outcome.bad_subtests)} failed"
    verb = {Status.FAILED: "failed", Status.ERROR: "raised"}.get(outcome.status, outcome.status.value)
    text = f"rank {outcome.rank} {verb}" + (f": {outcome.error.headline}" if outcome.error else "")
    return text + (f" ({outcome.note})" if outcome.note else "")


def _after_subtests(outcome: RankOutcome) -> str:
    return f" after {_count(outcome.bad_subtests)} had failed" if outcome.bad_subtests else ""


def _count(subtests: Sequence[SubtestOutcome]) -> str:
    return f"{len(subtests)} sub-test{'s' if len(subtests) > 1 else ''}"


@dataclass(frozen=True, slots=True)
class Grouped:
    """The ranks whose tracebacks are equal, and the error."""

    ranks: tuple[int, ...]
    error: ErrorInfo = field(compare=False)


def group_errors(ranks: Sequence[RankOutcome]) -> tuple[Grouped, ...]:
    """The errors of all ranks, each distinct traceback once, in the order in which they were received."""
    found: dict[str, tuple[list[int], ErrorInfo]] = {}
    for outcome in sorted(ranks, key=lambda o: o.order):
        if outcome.error is not None:
            found.setdefault(outcome.error.traceback, ([], outcome.error))[0].append(outcome.rank)
    return tuple(Grouped(tuple(sorted(numbers)), error) for numbers, error in found.values())
