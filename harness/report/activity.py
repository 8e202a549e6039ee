"""Says what each rank was doing at a test's end, and whether ranks had called different collectives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from harness.outcomes import RankOutcome, Status, exit_text, ranks_text
from harness.frames import Frame, main_stack, users_frame

# Ranks that exchange messages pairwise rightly differ in what they call and how often.
_POINT_TO_POINT = frozenset({"send", "recv", "isend", "irecv", "recv_any_source", "batch_isend_irecv"})
# A rank of any other status has an error or a reason of its own, which explains why it called no collective.
_WITHOUT_REASON = frozenset({Status.PASSED, Status.ENDED, Status.TIMED_OUT})
_C10D_FILE = "distributed_c10d.py"
# Functions of torch.distributed.distributed_c10d by which a stack alone tells what a rank waits for.
_JOINING = {
    "init_process_group": "init_process_group, for the other ranks to join",
    "new_group": "new_group, for the group's other ranks",
    "split_group": "split_group, for the group's other ranks",
    "destroy_process_group": "destroy_process_group",
    "_store_based_barrier": "the store's barrier, for the other ranks to join",
}
_COLLECTIVES = frozenset(
    {"all_reduce", "reduce", "broadcast", "barrier", "monitored_barrier", "all_gather", "gather", "scatter"}
    | {"all_gather_into_tensor", "all_gather_object", "all_gather_coalesced", "all_reduce_coalesced"}
    | {"all_to_all", "all_to_all_single", "broadcast_object_list", "gather_object", "scatter_object_list"}
    | {"reduce_scatter", "reduce_scatter_tensor", "send", "recv", "send_object_list", "recv_object_list"}
    | {"batch_isend_irecv"}
)


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


def activity(outcome: RankOutcome) -> Activity:
    """What one rank was doing, as a value that can be compared with that of another rank."""
    if outcome.status in (Status.ENDED, Status.TIMED_OUT):
        return _unfinished(outcome)
    after = _after(outcome)
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


def _unfinished(outcome: RankOutcome) -> Activity:
    """The activity of a rank that sent no report.

    The recorded collectives come first, then the stack, then the phase that the rank had reached.
    """
    frames = main_stack(outcome.stack)
    frame = users_frame(frames)
    where = f" ({frame.place})" if frame else ""
    current = outcome.under_way
    if current is not None:
        return Activity("waits", "wait", f"in {current}{where}")
    waiting = _waits_in(frames)
    if waiting:
        return Activity("waits", "wait", f"in {waiting}{where}{_after(outcome)}")
    if frame is not None:
        return Activity("is", "are", f"at {frame.place}{_after(outcome)}")
    if frames:
        return Activity("is", "are", f"at {frames[0].place}, outside the test's code{_after(outcome)}")
    return Activity("was", "were", f"in phase {outcome.phase!r}, without a stack{_after(outcome)}")


def _waits_in(frames: Sequence[Frame]) -> str:
    """What the rank waits for, by the functions of torch.distributed on its stack; "" for nothing."""
    found = ""
    for frame in frames:
        name = frame.file.replace("\\", "/").rsplit("/", 1)[-1]
        if name == _C10D_FILE and (frame.function in _JOINING or frame.function in _COLLECTIVES):
            found = _JOINING.get(frame.function, frame.function)
        elif name == "rendezvous.py" and not found:
            found = "the rendezvous, for its store"
    return found


def _after(outcome: RankOutcome) -> str:
    """The collective that the rank was in, or the last one it had finished; "" where it called none."""
    current = outcome.under_way
    if current is not None:
        return f" in {current}"
    return f" after {outcome.collectives[-1]}" if outcome.collectives else ""


def mismatch(ranks: Sequence[RankOutcome]) -> str:
    """One line about the first point at which ranks of a group called different collectives; "" for none.

    Only calls that a rank had not returned from, or that were a rank's last, are compared: ranks may have
    different groups of the same name, which may call different collectives.
    """
    calls: dict[tuple[str, int], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    suspicious: set[tuple[str, int]] = set()
    for outcome in ranks:
        for record in outcome.collectives:
            if record.operation in _POINT_TO_POINT:
                continue
            key = (record.group, record.sequence)
            calls[key][record.operation].append(outcome.rank)
            if record.ended_s is None or record is outcome.collectives[-1]:
                suspicious.add(key)
    differing = [key for key in suspicious if len(calls[key]) > 1]
    if not differing:
        return _absent(ranks)
    group, sequence = min(differing, key=lambda key: (key[1], key[0]))
    said = ", ".join(f"{op} on {ranks_text(who)}" for op, who in calls[group, sequence].items())
    return f"collectives differ at #{sequence} of group {group}: {said}"


def _absent(ranks: Sequence[RankOutcome]) -> str:
    """One line where ranks wait in a collective that another rank of the group never called, else ""."""
    waiting: set[tuple[int, str, str]] = set()
    reached: dict[str, dict[int, int]] = defaultdict(dict)
    for outcome in ranks:
        for record in outcome.collectives:
            if record.operation not in _POINT_TO_POINT and outcome.status in _WITHOUT_REASON:
                reached[record.group][outcome.rank] = record.sequence
        current = outcome.under_way
        if current is not None and current.operation not in _POINT_TO_POINT:
            waiting.add((current.sequence, current.group, current.operation))
    for sequence, group, operation in sorted(waiting):
        behind = [rank for rank, number in reached[group].items() if number < sequence]
        if behind:
            return f"{ranks_text(behind)} never called {operation} #{sequence} of group {group}"
    return ""
