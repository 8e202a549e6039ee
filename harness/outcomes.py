"""Outcomes of ranks and tests, and ``merge``: the verdict and root cause that rank outcomes come to.

Everything here is a value or a pure function of values, so that every rule can be tested as a table.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.calls import Call, under_way

# Upstream's exit codes of ranks that failed or skipped, for code that reads a process's exit code.
EXIT_ERROR = 10
EXIT_SKIPPED = 75


class Status(str, enum.Enum):
    """How a rank, a sub-test or a whole test ended."""

    PASSED = "passed"
    SKIPPED = "skipped"
    FAILED = "failed"  # an AssertionError
    ERROR = "error"  # any other exception
    CRASHED = "crashed"  # the process ended without an outcome, whatever the exit code
    TIMED_OUT = "timed out"  # still running when the deadline passed
    ENDED = "ended"  # collateral: ended by the supervisor after another rank's failure
    XFAILED = "expected failure"  # tests only: unittest.expectedFailure, and the test failed
    XPASSED = "unexpected success"  # tests only

    @property
    def bad(self) -> bool:
        """Whether the status can be the root cause of a test that does not pass."""
        return self in _BAD


_BAD = frozenset({Status.FAILED, Status.ERROR, Status.CRASHED, Status.TIMED_OUT})


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
    that are not processes. ``left`` lists what the test left changed in a pooled rank; ``groups_begun`` is
    the number of process groups that it began to make, where the rank keeps one. ``order`` numbers outcomes
    as the supervisor received them (0 first); ``at_s`` is when, on the monotonic clock. ``phase`` is the
    stage that the rank had reached: "start", "test", "cleanup" or "exit". ``expected``: the test is decorated
    with ``expectedFailure``, and ``error`` was raised by its method. Durations in seconds, memory in bytes.
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
    calls: tuple[Call, ...] = ()
    stack: str = ""
    phase: str = "test"
    order: int = 0
    at_s: float = 0.0
    pid: int | None = None
    accepted: tuple[object, ...] = ()
    note: str = ""
    log: str | None = None
    left: tuple[str, ...] = ()
    groups_begun: int = 0
    expected: bool = False

    @property
    def skipped(self) -> bool:
        """Whether the rank skipped, also where a sub-test or a cleanup failed besides."""
        return self.status is Status.SKIPPED or self.skip_reason is not None

    @property
    def failed_as_expected(self) -> bool:
        """Whether all that went wrong is the failure that the test announced by ``expectedFailure``."""
        return self.expected and self.status in (Status.FAILED, Status.ERROR) and self.phase != "exit"

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
        unfinished = self.status in (Status.CRASHED, Status.TIMED_OUT)
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
    ``warnings`` are lines about what the test left behind, ``mode`` is the rank mode that it ran in.
    """

    __test__ = False  # not a test class, whatever pytest thinks of the name

    status: Status
    ranks: tuple[RankOutcome, ...] = ()
    root_cause: int | None = None
    reason: str = ""
    subtests: tuple[MergedSubtest, ...] = ()
    warnings: tuple[str, ...] = ()
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
)


def lost_a_peer(error: ErrorInfo | None) -> bool:
    """Whether the exception only shows that another rank has ended."""
    return error is not None and any(sign in error.message.lower() for sign in _LOST_PEER)


@dataclass(frozen=True, slots=True)
class MergeRules:
    """Which ends of ranks a test expects (upstream's return-code contract).

    ``expected_exit``: rank 0 has to end with this exit code, and any rank may. ``any_exit``: how ranks end
    does not matter; only reported failures count.
    """

    expected_exit: int | None = None
    any_exit: bool = False


DEFAULT_RULES = MergeRules()


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


def merge(outcomes: Sequence[RankOutcome], rules: MergeRules = DEFAULT_RULES) -> TestOutcome:
    """Merges the outcomes of all ranks of one test into its verdict; the README lists the rules.

    ValueError where there is no outcome at all, since absence is never a pass.
    """
    if not outcomes:
        raise ValueError("merge() needs the outcome of at least one rank")
    ordered = sorted(outcomes, key=lambda o: o.rank)
    duration = max(o.duration_s for o in ordered)
    if rules.expected_exit is None and all(o.status is Status.PASSED and not o.subtests for o in ordered):
        return TestOutcome(Status.PASSED, tuple(ordered), duration_s=duration)  # the usual case
    ranks = tuple(apply_rules(rules, o) for o in ordered)
    subtests = _merge_subtests(ranks)
    status, root, reason = _verdict(ranks, subtests)
    wrong = _wrong_exit(ranks, rules)
    if wrong and status is Status.PASSED:
        status, root, reason = Status.ERROR, 0, wrong
    return TestOutcome(status, ranks, root, reason, subtests, duration_s=duration)


def apply_rules(rules: MergeRules, outcome: RankOutcome) -> RankOutcome:
    """The outcome by the test's rules: a crash that the rules expect counts as a pass."""
    if outcome.status is not Status.CRASHED:
        return outcome
    if rules.any_exit or (rules.expected_exit is not None and outcome.exit_code == rules.expected_exit):
        return replace(outcome, status=Status.PASSED, note="ended as the test announced")
    return outcome


def _wrong_exit(ranks: Sequence[RankOutcome], rules: MergeRules) -> str:
    if rules.any_exit or rules.expected_exit is None:
        return ""
    code = ranks[0].exit_code
    if code == rules.expected_exit:
        return ""
    return f"rank 0 should have ended with {exit_text(rules.expected_exit)}, not {exit_text(code)}"


def _verdict(
    ranks: Sequence[RankOutcome], subtests: Sequence[MergedSubtest]
) -> tuple[Status, int | None, str]:
    """The status, the root cause and a reason of one line."""
    skipped = [o for o in ranks if o.skipped]
    if skipped and len(skipped) < len(ranks):
        return Status.ERROR, _divergent_root(ranks, skipped), _divergence(ranks, skipped)
    for merged in subtests:
        if merged.divergence:
            skip = (merged.subtest.key, Status.SKIPPED)
            skipping = [o for o in ranks if skip in ((s.key, s.status) for s in o.subtests)]
            root = _divergent_root(ranks, skipping)
            return Status.ERROR, root, f"sub-test {merged.subtest}: {merged.divergence}"
    cause = root_cause(ranks)
    if cause is not None:
        return _status_of(cause), cause.rank, describe(cause)
    if skipped:
        return Status.SKIPPED, None, skip_reason(skipped) or ""
    ended = [o.rank for o in ranks if o.status is Status.ENDED]
    if ended:
        return Status.ERROR, None, f"{ranks_text(ended)} had to be ended"
    return Status.PASSED, None, ""


def _status_of(outcome: RankOutcome) -> Status:
    """The rank's status, or the worst status of its sub-tests."""
    if outcome.status.bad:
        return outcome.status
    bad = {s.status for s in outcome.subtests if s.status.bad}
    return Status.FAILED if bad == {Status.FAILED} else Status.ERROR


def root_cause(ranks: Sequence[RankOutcome]) -> RankOutcome | None:
    """The rank that failed first, in the order in which outcomes were received, with four exceptions.

    A rank whose only errors show that a peer has ended follows the ranks that failed for another reason or
    crashed; a rank that only timed out follows all others; and of these, one that waits in a collective
    follows those that do not, because it may wait for them. A rank that failed as ``expectedFailure`` says
    follows every rank that did not: what nobody expected is what the test is told by.
    """
    bad = [o for o in ranks if o.bad]
    if not bad:
        return None

    def precedence(o: RankOutcome) -> tuple[bool, bool, bool, bool, int]:
        as_expected = o.failed_as_expected and not o.bad_subtests
        merely_late = o.status is Status.TIMED_OUT and not o.bad_subtests
        waits = merely_late and o.under_way is not None
        noticed = o.status is not Status.CRASHED and _only_lost_peers(o)
        return (as_expected, merely_late, waits, noticed, o.order)

    return min(bad, key=precedence)


def _only_lost_peers(outcome: RankOutcome) -> bool:
    errors = [e for e in (outcome.error, *(s.error for s in outcome.bad_subtests)) if e is not None]
    return bool(errors) and all(map(lost_a_peer, errors))


def _divergent_root(ranks: Sequence[RankOutcome], skipped: Sequence[RankOutcome]) -> int:
    cause = root_cause(ranks)
    return cause.rank if cause is not None else min(skipped, key=lambda o: o.order).rank


def _divergence(ranks: Sequence[RankOutcome], skipped: Sequence[RankOutcome]) -> str:
    others = [o for o in ranks if o not in skipped]
    doing = "; ".join(describe(o) if o.bad else f"rank {o.rank} {o.status.value}" for o in others[:8])
    return _divergent_skip([(o.rank, o.skip_reason) for o in skipped], [o.rank for o in others], doing)


def _divergent_skip(skipped: Sequence[tuple[int, str | None]], others: Sequence[int], doing: str) -> str:
    return (
        f"divergent skip: {ranks_text(rank for rank, _ in skipped)} skipped "
        f"({_reasons(skipped) or 'no reason given'}), {ranks_text(others)} did not ({doing}); "
        "a real job would deadlock here"
    )


def skip_reason(ranks: Sequence[RankOutcome]) -> str | None:
    """Why a test skipped, if all of its ranks did; None where one did not. Several reasons are listed."""
    if not all(o.skipped for o in ranks):
        return None
    return _reasons([(o.rank, o.skip_reason) for o in ranks])


def _reasons(skipped: Sequence[tuple[int, str | None]]) -> str:
    by_reason: dict[str, list[int]] = {}
    for rank, reason in skipped:
        by_reason.setdefault("no reason given" if reason is None else reason, []).append(rank)
    if len(by_reason) == 1:
        return next(iter(by_reason))
    return "; ".join(f"{ranks_text(numbers)}: {reason}" for reason, numbers in by_reason.items())


def _merge_subtests(ranks: Sequence[RankOutcome]) -> tuple[MergedSubtest, ...]:
    """Sub-tests of all ranks by (message, params), each with its worst outcome, in order of appearance.

    A rank may have several with one key, in a loop for example; they are merged in the order of each rank.
    """
    found: dict[object, dict[int, list[SubtestOutcome]]] = {}
    for outcome in ranks:
        for subtest in outcome.subtests:
            found.setdefault(subtest.key, {}).setdefault(outcome.rank, []).append(subtest)
    merged = []
    for by_rank in found.values():
        # Where the numbers differ, nobody knows which of them correspond, so that none is called divergent.
        aligned = len({len(own) for own in by_rank.values()}) == 1
        for nth in range(max(len(own) for own in by_rank.values())):
            same = {rank: own[nth] for rank, own in by_rank.items() if nth < len(own)}
            merged.append(_merged(same, aligned=aligned))
    return tuple(merged)


_SEVERITY = (Status.PASSED, Status.SKIPPED, Status.FAILED, Status.ERROR)


def _merged(same: Mapping[int, SubtestOutcome], *, aligned: bool) -> MergedSubtest:
    """One sub-test of several ranks: its worst outcome, or an error if some skipped it and others did not."""
    worst = max(same.values(), key=lambda s: _SEVERITY.index(s.status))
    skipped = [(r, s.skip_reason) for r, s in same.items() if s.status is Status.SKIPPED]
    others = [r for r, s in same.items() if s.status is not Status.SKIPPED]
    if not (aligned and skipped and others):
        return MergedSubtest(worst, tuple(r for r, s in same.items() if s.status is worst.status))
    doing = "; ".join(f"rank {r} {same[r].status.value}" for r in others[:8])
    text = _divergent_skip(skipped, others, doing)
    shown = f"{text}\n{worst.error.traceback}" if worst.error is not None else text
    error = ErrorInfo("DivergentSkip", text, shown)
    return MergedSubtest(replace(worst, status=Status.ERROR, error=error), tuple(same), text)


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
