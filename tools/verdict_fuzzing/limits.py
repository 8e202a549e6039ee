"""The deadline and the graces of a case: short where something is to run into them, long everywhere else."""

from __future__ import annotations

from dataclasses import dataclass

from tools.verdict_fuzzing.case import GARBLING, FuzzCase
from tools.verdict_fuzzing.model import Nature, dies, hangs, nature, stuck

# Seconds, before patience. Nothing that is to end by itself may run into a limit on a busy machine.
LONG_S = 60.0
# The deadline of a test that hangs: a hundred times what two ranks take to start.
DEADLINE_S = 2.0
# An interpreter that starts for each rank imports torch, on a processor that others use too.
SPAWN_S, SPAWN_RANK_S = 4.0, 3.0
# What a test on local tensors takes in its first process.
LOCAL_S = 8.0
GRACE_S, EXIT_GRACE_S = 0.3, 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The deadline and the graces of a case, in seconds."""

    deadline_s: float
    grace_s: float
    skip_grace_s: float
    exit_grace_s: float


def limits_of(case: FuzzCase, patience: float) -> Limits:
    """The limits of a case; ``patience`` multiplies them, for a machine that is busy."""
    late = _ends_at_deadline(case)
    held_up = late or bool(stuck(case)) or hangs(case)
    skips = nature(case) in (Nature.SKIPS, Nature.FAILS_THEN_SKIPS) or case.peers == "skip"
    return Limits(
        deadline_s=patience * (_deadline_s(case) if late else LONG_S),
        grace_s=patience * (GRACE_S if held_up else LONG_S),
        skip_grace_s=patience * (GRACE_S if held_up and skips else LONG_S),
        exit_grace_s=patience * (EXIT_GRACE_S if hangs(case) and case.moment == "exit" else LONG_S),
    )


def _ends_at_deadline(case: FuzzCase) -> bool:
    """Whether a rank may say nothing until the deadline, as a dead one does that somebody else started."""
    if case.moment == "exit":
        return False
    return hangs(case) or case.fault in GARBLING or (case.mode == "external" and dies(case))


def _deadline_s(case: FuzzCase) -> float:
    if case.launcher == "spawn" or case.moment == "import":
        return SPAWN_S + SPAWN_RANK_S * case.world_size
    return LOCAL_S if case.mode == "local" else DEADLINE_S + 0.2 * case.world_size
