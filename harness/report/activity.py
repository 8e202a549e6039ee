"""Says what each rank was doing at a test's end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from harness.communication_call import Call, Kind, under_way
from harness.frames import Frame, main_stack, users_frame
from harness.outcomes import RankOutcome, Status, exit_text, ranks_text
from harness.record import RankRecord

_C10D_FILE = "distributed_c10d.py"
# Functions of torch.distributed.distributed_c10d by which a stack alone tells what a rank waits for.
_JOINING = {
    "init_process_group": "init_process_group, for the other ranks to join",
    "new_group": "new_group, for the group's other ranks",
    "split_group": "split_group, for the group's other ranks",
    "destroy_process_group": "destroy_process_group",
    "_store_based_barrier": "the store's barrier, for the other ranks to join",
}


@dataclass(frozen=True, slots=True)
class Activity:
    """What ranks were doing: the verb in singular and plural, and the rest of the phrase."""

    one: str
    several: str
    rest: str = ""

    def phrase(self, ranks: int = 1) -> str:
        """The predicate for this number of ranks: ``waits in barrier #2 of group 0``."""
        verb = self.one if ranks == 1 else self.several
        return f"{verb} {self.rest}" if self.rest else verb


def doing(outcome: RankOutcome) -> str:
    """What one rank was doing, as a predicate: ``waits in all_reduce #5 of group 0 (t.py:20 in test_x)``."""
    return activity(outcome).phrase()


def activities(outcomes: Sequence[RankOutcome]) -> str:
    """What all ranks were doing. Ranks that did the same are named together, ordered by their lowest rank."""
    groups: dict[Activity, list[int]] = defaultdict(list)
    for outcome in sorted(outcomes, key=lambda o: o.rank):
        groups[activity(outcome)].append(outcome.rank)
    return "; ".join(f"{ranks_text(ranks)} {a.phrase(len(ranks))}" for a, ranks in groups.items())


def standing(record: RankRecord) -> str:
    """Where one rank stood when the test failed, in few words: its calls are told elsewhere."""
    if record.status in _UNFINISHED:
        current = under_way(record.calls)
        if current is not None:
            return f"waits in {current.name}{current.at}"
        return _unfinished(record.calls, record.stack).phrase()
    if record.status is Status.CRASHED:
        return f"crashed with {exit_text(record.exit_code)}"
    if record.status is Status.SKIPPED:
        return "skipped"
    if record.error:
        verb = "failed" if record.status is Status.FAILED else "raised"
        return f"{verb} {_headline(record.error)}"
    return "left the test"


_UNFINISHED = frozenset({Status.ENDED, Status.TIMED_OUT, Status.DEADLOCKED})


def _headline(traceback: str) -> str:
    """The line of a traceback that has the exception."""
    lines = traceback.splitlines()
    last = max((n for n, line in enumerate(lines) if line.startswith("  File ")), default=-1)
    return next((line for line in lines[last + 1 :] if line.strip() and not line.startswith(" ")), "")


def activity(outcome: RankOutcome) -> Activity:
    """What one rank was doing, as a value that can be compared with that of another rank."""
    after = _after(outcome.calls)
    if outcome.status in _UNFINISHED:
        return _unfinished(outcome.calls, outcome.stack, outcome.phase, after)
    if outcome.status is Status.CRASHED:
        return Activity("crashed", "crashed", f"with {exit_text(outcome.exit_code)}{after}")
    if outcome.status is Status.SKIPPED:
        return Activity("skipped", "skipped", f"({outcome.skip_reason or 'no reason given'})")
    if outcome.error is not None:
        verb = "failed" if outcome.status is Status.FAILED else "raised"
        return Activity(verb, verb, f"{outcome.error.headline}{after}")
    if outcome.bad:
        return Activity("had failing sub-tests", "had failing sub-tests", after.strip())
    return Activity("had passed", "had passed", after.strip())


def _unfinished(calls: Sequence[Call], stack: str, phase: str = "test", after: str = "") -> Activity:
    """The activity of a rank that sent no report.

    The recorded calls come first, then the stack, then the phase that the rank had reached.
    """
    frames = main_stack(stack)
    frame = users_frame(frames)
    where = f" ({frame.place})" if frame else ""
    current = under_way(calls)
    if current is not None:
        return Activity("waits", "wait", f"in {current}{current.at or where}")
    if phase == "turn":
        return Activity("waits", "wait", f"for its turn to run{where}{after}")
    waiting = _waits_in(frames)
    if waiting:
        return Activity("waits", "wait", f"in {waiting}{where}{after}")
    if frame is not None:
        return Activity("is", "are", f"at {frame.place}{after}")
    if frames:
        return Activity("is", "are", f"at {frames[0].place}, outside the test's code{after}")
    return Activity("was", "were", f"in phase {phase!r}, without a stack{after}")


def _waits_in(frames: Sequence[Frame]) -> str:
    """What the rank waits for, by the functions of torch.distributed on its stack; "" for nothing."""
    found = ""
    for frame in frames:
        name = frame.file.replace("\\", "/").rsplit("/", 1)[-1]
        if name == _C10D_FILE and frame.function in _JOINING:
            found = _JOINING[frame.function]
        elif name == "rendezvous.py" and not found:
            found = "the rendezvous, for its store"
    return found


def _after(calls: Sequence[Call]) -> str:
    """The call that the rank was in, or the last one it had finished; "" where it made none."""
    current = under_way(calls)
    if current is not None:
        return f" in {current}{current.at}"
    if not calls:
        return ""
    last = calls[-1]
    return f" after {last.name if last.signature.kind is Kind.MAKING else last}"
