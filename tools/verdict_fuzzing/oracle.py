"""``expected``: the verdict that a case must have, by ``docs/failures.rst`` and nothing of the harness's own.

The rules are those of its tables of verdicts: all pass or all skip; some skip and some do not is an error; an
assertion is a failure, the first that arrived; another exception an error; a rank gone without a report, or
there at the deadline, an error. ``expectedFailure`` is as in a single process. Where two ranks go wrong by
themselves either may come first, and both verdicts are right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tools.verdict_fuzzing.case import EXITING, GARBLING, LEAVING_PROCESSES, FuzzCase
from tools.verdict_fuzzing.limits import limits_of
from tools.verdict_fuzzing.model import Nature, dies, hangs, nature, stuck
from tools.verdict_fuzzing.observation import NO_VERDICT, Observation

# Seconds, before patience, by which a verdict may be late and not wrong; and for each rank, which
# may be an interpreter that imports torch. A machine with eight things to do at once needs a tenth.
LATE_S, LATE_RANK_S = 30.0, 8.0
# A failing test on pooled ranks may be tried once more, and takes as long again.
ATTEMPTS = 2
_OF_NATURE = {Nature.FAILS: "fail", Nature.FAILS_THEN_SKIPS: "fail"}


@dataclass(frozen=True, slots=True)
class Expectation:
    """What may come of a case.

    ``verdicts`` are the right ones. ``causes`` are the ranks of which some must be named, and no others;
    empty where nothing is demanded. ``skipped`` must be named as the ranks that skipped alone. One of
    ``words`` must be in the text. ``due_s`` is when the verdict is due, in seconds after the start,
    ``latest_s`` when it is wrong for being late. ``after`` are the right verdicts of the next test.
    """

    verdicts: frozenset[str]
    causes: frozenset[int] = frozenset()
    skipped: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    due_s: float = 0.0
    latest_s: float = 0.0
    after: frozenset[str] = frozenset({"pass"})

    def __str__(self) -> str:
        parts = [" or ".join(sorted(self.verdicts))]
        parts += [f"caused by rank {' or '.join(map(str, sorted(self.causes)))}"] if self.causes else []
        parts += [f"ranks {list(self.skipped)} skipped alone"] if self.skipped else []
        parts += [" or ".join(map(repr, self.words))] if self.words else []
        return ", ".join(parts)


def expected(case: FuzzCase, patience: float = 1.0) -> Expectation:
    """What must come of a case whose limits are multiplied by ``patience``."""
    wanted = _as_expected_failure(case) if case.expected_failure else _plain(case)
    if _nobody_is_left(case):
        wanted = replace(wanted, verdicts=wanted.verdicts | {NO_VERDICT})
    due_s = _due_s(case, patience)
    latest_s = ATTEMPTS * due_s + patience * (LATE_S + LATE_RANK_S * case.world_size)
    return replace(wanted, due_s=due_s, latest_s=latest_s, after=_next_test(case))


def _nobody_is_left(case: FuzzCase) -> bool:
    """Whether no process may be there to come to a verdict: each of them is a rank of another launcher."""
    lost = case.strikers if dies(case) or hangs(case) else ()
    return case.mode == "external" and {*lost, *stuck(case)} == set(range(case.world_size))


def _due_s(case: FuzzCase, patience: float) -> float:
    """The seconds until the harness can know what it says; starting ranks is not counted."""
    limits = limits_of(case, patience)
    if hangs(case) and case.moment == "exit":
        return limits.exit_grace_s
    if hangs(case) and case.peers == "skip":
        return limits.skip_grace_s
    if hangs(case) and case.peers != "fail":
        return limits.deadline_s
    if case.fault in GARBLING or (case.mode == "external" and dies(case)):
        return limits.deadline_s
    if hangs(case) or stuck(case):
        return limits.skip_grace_s if nature(case) is Nature.SKIPS else limits.grace_s
    return 0.0


def _next_test(case: FuzzCase) -> frozenset[str]:
    """The verdicts that the test after this one may have: an external rank that is lost stays lost."""
    if case.mode != "external":
        return frozenset({"pass"})
    if dies(case):
        return frozenset({"error", NO_VERDICT}) | (
            frozenset({"pass"}) if _job_is_ended(case) else frozenset()
        )
    uncertain = hangs(case) or stuck(case)
    return frozenset({"pass", "error", NO_VERDICT} if uncertain else {"pass"})


def _job_is_ended(case: FuzzCase) -> bool:
    """Whether the struck ranks are sent SIGTERM where that is how their launcher ends the whole job.

    The process lives on for its verdict, so that a test that somebody else begins there runs as any other.
    """
    return case.mode == "external" and case.fault == "sigterm"


def _plain(case: FuzzCase) -> Expectation:
    kind = nature(case)
    if case.peers == "skip" and case.others:
        return _beside_skips(case, kind)
    if kind in (Nature.SKIPS, Nature.SKIPS_PART):
        return _skipping(case, kind)
    wanted = _struck(case, kind)
    if case.peers == "fail" and case.others:
        return _beside_failures(case, kind, wanted)
    return wanted


def _struck(case: FuzzCase, kind: Nature) -> Expectation:
    """What a fault comes to by itself, whatever peers do that neither fail nor skip."""
    causes = frozenset(case.strikers)
    anyone = frozenset() if case.moment == "import" else causes
    if kind is Nature.PASSES:
        leaves = case.fault in LEAVING_PROCESSES
        strict = leaves and case.strict
        words = ("left",) if leaves else ()
        return Expectation(frozenset({"error" if strict else "pass"}), words=words)
    if kind is Nature.NEVER_RUNS:
        return Expectation(frozenset({"fail", "error"}))
    if kind is Nature.FAILS_THEN_SKIPS:
        # As one process says it; where other ranks went on, it is a divergent skip as well.
        if case.others:
            return Expectation(frozenset({"fail", "error"}))
        return Expectation(frozenset({"fail"}), causes)
    if kind is Nature.FAILS and case.moment == "import":
        return Expectation(frozenset({"fail", "error"}))
    if _job_is_ended(case):
        return Expectation(frozenset({"error", "pass"}))  # a pass where all ranks are done by then
    verdict = frozenset({_OF_NATURE.get(kind, "error")})
    if kind is Nature.DIES:
        return Expectation(
            verdict, anyone, words=() if case.fault in GARBLING or not anyone else ("crashed",)
        )
    if kind is Nature.HANGS:
        # A peer that runs a loop of its own waits for nobody, as far as anybody can see.
        causes = causes | frozenset(case.others if case.peers == "busy" else ()) if anyone else anyone
        return Expectation(verdict, causes, words=_hung_words(case))
    return Expectation(verdict, anyone)


def _hung_words(case: FuzzCase) -> tuple[str, ...]:
    """What the text says of a hang; a process that somebody else started may be lost without a word."""
    if case.moment == "import":
        return ()
    return ("timed out", "deadlock", *(("no word from it",) if case.mode == "external" else ()))


def _skipping(case: FuzzCase, kind: Nature) -> Expectation:
    if not case.others:
        return Expectation(frozenset({"skip" if kind is Nature.SKIPS else "pass"}))
    if kind is Nature.SKIPS_PART:
        if case.peers == "fail":
            return Expectation(frozenset({"fail", "error"}))
        return Expectation(frozenset({"error"}))
    causes = frozenset(case.others if case.peers == "fail" else ())
    return Expectation(frozenset({"error"}), causes, skipped=case.strikers, words=("divergent skip",))


def _beside_skips(case: FuzzCase, kind: Nature) -> Expectation:
    """The struck ranks go on or wrong while the others skip the test."""
    if kind is Nature.SKIPS:
        return Expectation(frozenset({"skip"}))
    if kind is Nature.FAILS_THEN_SKIPS:
        return Expectation(frozenset({"fail", "error"}))
    quiet = kind in (Nature.PASSES, Nature.SKIPS_PART, Nature.HANGS)
    causes = frozenset() if quiet else frozenset(case.strikers)
    return Expectation(frozenset({"error"}), causes, skipped=case.others, words=("divergent skip",))


def _beside_failures(case: FuzzCase, kind: Nature, wanted: Expectation) -> Expectation:
    """The other ranks fail an assertion: either may come first, but a hang never comes before it."""
    theirs = Expectation(frozenset({"fail"}), frozenset(case.others))
    if kind in (Nature.PASSES, Nature.SKIPS_PART):
        return replace(theirs, verdicts=frozenset({"fail", "error"}) if case.strict else theirs.verdicts)
    if kind is Nature.HANGS:
        return theirs
    return Expectation(wanted.verdicts | theirs.verdicts, frozenset(range(case.world_size)))


def _as_expected_failure(case: FuzzCase) -> Expectation:
    """The verdict with ``expectedFailure``: only what the method itself fails with is expected."""
    plain = replace(case, expected_failure=False)
    kind = nature(case)
    wanted = _plain(plain)
    if kind is Nature.SKIPS_PART and not case.others:
        return Expectation(frozenset({"pass", "unexpected success"}))  # unittest itself says nothing then
    if wanted.verdicts == {"pass"}:
        return Expectation(frozenset({"unexpected success"}))
    if _job_is_ended(case):
        # A peer that loses the struck rank raises in its method, which is as expected as any failure.
        done = {"expected failure", "unexpected success"}
        return replace(wanted, verdicts=wanted.verdicts - {"pass", "fail"} | done)
    if wanted.verdicts == {"skip"} or "divergent skip" in wanted.words:
        return wanted
    expected_failure = frozenset({"expected failure"})
    peers_fail = case.peers == "fail" and bool(case.others)
    in_method = case.moment in ("body", "sub-test", "late")
    if kind in (Nature.FAILS, Nature.RAISES, Nature.EXITS) and in_method:
        # By unittest these are as expected as any; here ``sys.exit`` is a crash, which nobody can expect.
        doubtful = case.fault in (*EXITING, "keyboard_interrupt")
        return Expectation(expected_failure | (frozenset({"error"}) if doubtful else frozenset()))
    if kind in (Nature.PASSES, Nature.SKIPS_PART):
        return Expectation(
            expected_failure
            | (frozenset({"error"}) if kind is Nature.SKIPS_PART or case.strict else frozenset())
        )
    if kind is Nature.HANGS and peers_fail:
        return Expectation(expected_failure | {"error"})
    if peers_fail and kind is not Nature.DIES:
        return Expectation(wanted.verdicts | expected_failure)
    return (
        replace(wanted, verdicts=wanted.verdicts - {"fail"} or wanted.verdicts)
        if kind is Nature.DIES
        else wanted
    )


def objections(case: FuzzCase, wanted: Expectation, came: Observation) -> list[str]:
    """What is wrong with what came of a case, a line each; empty where nothing is."""
    wrong = []
    if came.verdict not in wanted.verdicts:
        wrong.append(f"the verdict is {came.verdict}")
        return [*wrong, *came.left]
    if came.verdict == NO_VERDICT:
        return [*came.left]
    judged_bad = came.verdict in ("fail", "error")
    blamed = set(came.causes)
    if judged_bad and wanted.causes and not ((blamed and blamed <= wanted.causes) or _told(wanted, came)):
        named = f"ranks {list(came.causes)} are named as the cause"
        wrong.append(named if blamed else "no cause is named")
    if judged_bad and wanted.skipped and came.skipped != wanted.skipped:
        wrong.append(f"ranks {list(came.skipped)} are said to have skipped")
    told = "\n".join((came.text, *came.warnings))
    if wanted.words and came.verdict != "expected failure" and not any(word in told for word in wanted.words):
        wrong.append(f"the text has none of {', '.join(map(repr, wanted.words))}")
    if came.seconds is not None and came.seconds > wanted.latest_s:
        wrong.append(f"it took {came.seconds:.1f} s, and {wanted.due_s:.1f} s were due")
    # A module that no rank can import is the same to all of its tests.
    alike = frozenset({came.verdict}) if case.moment == "import" else frozenset()
    if case.prelude and came.before not in (alike or {"pass"}):
        wrong.append(f"the test before it: {came.before}")
    if came.after not in (alike or wanted.after):
        wrong.append(f"the test after it: {came.after}")
    return [*wrong, *came.left]


def _told(wanted: Expectation, came: Observation) -> bool:
    """Whether the reason of a divergent skip tells what became of the ranks that are to be named."""
    reason = next((line for line in came.text.splitlines() if "divergent skip:" in line), "")
    _, _, others = reason.partition("did not (")
    named = re.findall(r"\branks? (\d+(?:(?:, |-)\d+)*)", others)
    return bool(wanted.causes & {rank for text in named for rank in _numbers(text)})


def _numbers(ranks: str) -> Iterator[int]:
    """The ranks of a list such as "0, 2-4"."""
    for part in ranks.split(", "):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
