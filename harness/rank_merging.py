"""``merge``: the verdict and the root cause that the outcomes of a test's ranks come to.

Pure functions of values, so that every rule can be tested as a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.communication.analysis.call_differences import explain_failed_call
from harness.communication.analysis.checks import Check, Finding, findings
from harness.communication.analysis.explain import RankState, explain
from harness.communication_call import Call, Kind
from harness.frames import main_stack, users_frame
from harness.outcomes import (
    ErrorInfo,
    MergedSubtest,
    RankOutcome,
    Status,
    SubtestOutcome,
    TestOutcome,
    describe,
    exit_text,
    lost_a_peer,
    ranks_text,
)


@dataclass(frozen=True, slots=True)
class MergeRules:
    """Which ends of ranks a test expects (upstream's return-code contract).

    ``expected_exit``: rank 0 has to end with this exit code, and any rank may. ``any_exit``: how ranks end
    does not matter; only reported failures count.
    """

    expected_exit: int | None = None
    any_exit: bool = False


DEFAULT_RULES = MergeRules()


def merge(outcomes: Sequence[RankOutcome], rules: MergeRules = DEFAULT_RULES) -> TestOutcome:
    """Merges the outcomes of all ranks of one test into its verdict; ``docs/failures.rst`` lists the rules.

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


def with_communication(
    outcome: TestOutcome, level: str | None, values: Sequence[Finding] = ()
) -> TestOutcome:
    """The outcome of a test with what is wrong with its ranks' communication.

    ``level`` is "off", "warn", "error", "values" or None: then arguments that differ are errors, the rest
    warnings. ``values`` is what was found in the values of calls, under "values", where wrong results are the
    only errors. Of a test that failed otherwise, differing arguments and wrong results may be the reason, and
    are told beside it.
    """
    if level == "off" or outcome.status is Status.SKIPPED:
        return outcome
    calls = {}
    if outcome.status in (Status.PASSED, Status.FAILED, Status.ERROR):
        calls = {o.rank: o.calls for o in outcome.ranks}
    found = (*findings(calls), *values)
    if not found:
        return outcome
    if outcome.status is not Status.PASSED:
        lines = (f.text for f in found if f.check.error and f.text not in outcome.reason)
        return replace(outcome, communication=tuple(lines))
    errors = [f for f in found if _is_error(f.check, level)]
    rest = tuple(f.text for f in found if f not in errors[:1])
    if not errors:
        return replace(outcome, communication=rest)
    first = errors[0]
    root = first.ranks[0] if first.ranks else None
    return replace(outcome, status=Status.ERROR, root_cause=root, reason=first.text, communication=rest)


def _is_error(check: Check, level: str | None) -> bool:
    if level == "values":
        return check is Check.VALUES
    return level == "error" or (level is None and check.error)


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
        kind = _kind(ranks, cause)
        explained = _explained(ranks, cause)
        if explained is not None:
            return kind, *explained
        return kind, cause.rank, describe(cause)
    if skipped:
        return Status.SKIPPED, None, skip_reason(skipped) or ""
    ended = [o.rank for o in ranks if o.status is Status.ENDED]
    if ended:
        return Status.ERROR, None, f"{ranks_text(ended)} had to be ended"
    return Status.PASSED, None, ""


def _explained(ranks: Sequence[RankOutcome], cause: RankOutcome) -> tuple[int, str] | None:
    """The rank that did something differently and what, where ``cause`` only suffers from it; else None."""
    if cause.status in (Status.DEADLOCKED, Status.TIMED_OUT) and cause.phase != "exit":
        found = explain([_state(o) for o in ranks], over=cause.status is Status.TIMED_OUT)
    elif cause.status is Status.ERROR and _failed_in_a_call(cause):
        calls = {o.rank: o.calls for o in ranks}
        found = explain_failed_call(cause.rank, calls) or explain([_as_if_it_waited(o) for o in ranks])
    elif cause.status is Status.CRASHED or (cause.status is Status.ERROR and not cause.bad_subtests):
        found = explain_failed_call(cause.rank, {o.rank: o.calls for o in ranks})
    else:
        return None
    if found is None:
        return None
    blamed = found.ranks[0] if found.ranks else cause.rank
    if cause.status not in _WAITED:
        return blamed, f"{found.text}; {describe(cause)}"
    note = next(o.note for o in ranks if o.rank == blamed)
    return blamed, f"{found.text} (rank {blamed}: {note})" if note else found.text


def _failed_in_a_call(outcome: RankOutcome) -> bool:
    return _failed_call(outcome) is not None


def _failed_call(outcome: RankOutcome) -> Call | None:
    """The communication call out of which the rank's error came: from a peer, perhaps; else None.

    It is its last one, but for one that was refused, which came to no peer; or one that goes on, where the
    error is that the rank waited for it with a timeout of the wait's own.
    """
    if outcome.bad_subtests or not outcome.calls:
        return None
    last = outcome.calls[-1]
    if last.raised and not last.refused:
        # What a remote function raises is raised here, too: only without an answer is there more to say.
        return last if last.kind is not Kind.ANSWER or lost_a_peer(outcome.error) else None
    if outcome.error is None or "timed out" not in outcome.error.message.lower():
        return None
    return next((c for c in reversed(outcome.calls) if c.own_work and c.ended_s is None), None)


def _as_if_it_waited(outcome: RankOutcome) -> RankState:
    """The state of a rank as it was before its call failed, if that is why the rank did."""
    state = _state(outcome)
    failed = _failed_call(outcome) if outcome.status is Status.ERROR else None
    if failed is None:
        return state
    since = failed.waiting_s or failed.started_s
    waiting = replace(failed, raised=False, bounded=False, ended_s=None, waiting_s=since)
    return replace(state, calls=[waiting if c is failed else c for c in outcome.calls], finished=False)


_WAITED = frozenset({Status.DEADLOCKED, Status.TIMED_OUT})


def _state(outcome: RankOutcome) -> RankState:
    frame = users_frame(main_stack(outcome.stack))
    gone = f"crashed with {exit_text(outcome.exit_code)}" if outcome.status is Status.CRASHED else ""
    finished = outcome.status in (Status.PASSED, Status.SKIPPED, Status.FAILED, Status.ERROR)
    at = frame.place if frame else ""
    return RankState(outcome.rank, outcome.calls, finished, gone, at, outcome.phase == "turn")


_GRAVEST_FIRST = (Status.CRASHED, Status.ERROR, Status.FAILED)


def _kind(ranks: Sequence[RankOutcome], cause: RankOutcome) -> Status:
    """The test's status: the gravest of the ranks that failed by themselves, whichever of them was quicker.

    A rank that was merely late, has lost a peer, or failed as ``expectedFailure`` says counts only where it
    is the cause.
    """
    own = {_status_of(cause)}
    if cause.status not in _WAITED and not cause.failed_as_expected:
        others = [o for o in ranks if o.bad and o.status not in _WAITED and not o.failed_as_expected]
        own |= {_status_of(o) for o in others if o.status is Status.CRASHED or not _only_lost_peers(o)}
    return next((status for status in _GRAVEST_FIRST if status in own), _status_of(cause))


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
    or for its turn to run follows those that do not, because it may wait for them. A rank that failed as
    ``expectedFailure`` says follows every rank that did not: what nobody expected is what the test is told
    by.
    """
    bad = [o for o in ranks if o.bad]
    if not bad:
        return None

    def precedence(o: RankOutcome) -> tuple[bool, bool, bool, bool, int]:
        as_expected = o.failed_as_expected and not o.bad_subtests
        merely_late = o.status is Status.TIMED_OUT and not o.bad_subtests
        merely_late = merely_late or o.status is Status.DEADLOCKED
        waits = merely_late and (o.under_way is not None or o.phase == "turn")
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
    alike: dict[tuple[str, str], list[int]] = {}
    for o in others:
        alike.setdefault(_beside_a_skip(o), []).append(o.rank)
    told = [f"{ranks_text(who)}{text[len(who) > 1]}" for text, who in alike.items()]
    doing = "; ".join(told[:8])
    return _divergent_skip([(o.rank, o.skip_reason) for o in skipped], [o.rank for o in others], doing)


def _beside_a_skip(outcome: RankOutcome) -> tuple[str, str]:
    """What became of a rank when another one had skipped, what follows its number, in singular and plural."""
    call = outcome.under_way
    if outcome.status is Status.ENDED and call is not None:
        return (f" waits in {call}{call.at}", f" wait in {call}{call.at}")
    text = describe(outcome).partition(f"rank {outcome.rank}")[2] if outcome.bad else ""
    text = text or f" {outcome.status.value}"
    return (text, text)


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
