"""What is thought of a case: whether what came of it is what had to come, and names the odd rank."""

from __future__ import annotations

import enum
import re

from harness.fuzzing.mutation import Mutation
from harness.fuzzing.prediction import Prediction
from harness.fuzzing.program import CollectiveStep, Message, Program
from tools.communication_fuzzing.case import FuzzCase
from tools.communication_fuzzing.player import Observation

_RANKS = re.compile(r"\branks? (\d+(?:-\d+)?(?:(?:, | and | -> )\d+(?:-\d+)?)*)")
# How a cause begins that names each rank of a cycle, of which there may be more than two.
_CYCLE = "ranks call groups in "
# How a cause begins that names both sides of a collective.
_SIDES = re.compile(r"^ranks? [\d, -]+ (?:calls?|reduces?|takes?|gives?|broadcasts?) .*, ranks? |^" + _CYCLE)
# How a cause begins that names two ranks, each of which waits for the other.
_EACH_OTHER = re.compile(r"^rank (\d+) waits for rank (\d+) in .*, and rank \2 for rank \1 in ")
_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")


class Judgement(str, enum.Enum):
    """What is thought of a case."""

    RIGHT = "right"  # nothing is wrong, and nothing was said
    PROVEN = "proven"  # a deadlock, with the odd rank
    REPORTED = "reported"  # an error, a crash or a warning, with the odd rank
    UNSEEN = "unseen"  # a call is left over for which nobody waited
    MISSED = "missed"  # nothing was said, or at the deadline only
    WRONG_BLAME = "wrong blame"  # the odd rank is not named
    FALSE_PROOF = "false proof"  # a deadlock where there is none
    FALSE_WORD = "false word"  # something else was said where nothing is wrong

    @property
    def good(self) -> bool:
        """Whether it is as it should be."""
        return self in (Judgement.RIGHT, Judgement.PROVEN, Judgement.REPORTED, Judgement.UNSEEN)


def judged(case: FuzzCase, came: Observation) -> Judgement:
    """What is thought of what came of a case."""
    prediction, silent = case.prediction, came.status == "passed" and not came.told
    if prediction is Prediction.RIGHT or case.mutation is None:
        if silent:
            return Judgement.RIGHT
        return Judgement.FALSE_PROOF if came.status == "deadlocked" else Judgement.FALSE_WORD
    if silent and prediction is Prediction.OPEN:
        return Judgement.UNSEEN
    if silent or came.status in ("timed out", "no outcome", "failed"):
        return Judgement.MISSED
    said = came.cause if came.status != "passed" else came.told[0]
    if not blames(case.program, case.mutation, said):
        return Judgement.WRONG_BLAME
    return Judgement.PROVEN if came.status == "deadlocked" else Judgement.REPORTED


def blames(program: Program, mutation: Mutation, said: str) -> bool:
    """Whether a cause names the mutated rank: first where most ranks tell it from the others, else at all.

    Of two sides with as many ranks each, any may be named first, and so may any rank of a cycle, or of two
    that wait for each other.
    """
    each_other = _EACH_OTHER.search(said)
    if each_other is not None:
        return str(mutation.rank) in each_other.groups()
    named = [_numbers(found[1]) for found in _RANKS.finditer(said)]
    if not has_majority(program, mutation):
        return any(mutation.rank in ranks for ranks in named)
    sides = named if said.startswith(_CYCLE) else named[:2]
    as_many = [ranks for ranks in sides if len(ranks) == len(named[0])]
    return any(mutation.rank in ranks for ranks in as_many if ranks is named[0] or _SIDES.search(said))


def has_majority(program: Program, mutation: Mutation) -> bool:
    """Whether more than one other rank takes part in each call that is otherwise."""
    numbers = [mutation.number, *([mutation.other[0]] if mutation.other is not None else [])]
    steps = [program.steps[number] for number in numbers]
    assert all(isinstance(step, CollectiveStep | Message) for step in steps), "a straggler makes no call"
    return all(isinstance(step, CollectiveStep) and len(step.group) > 2 for step in steps)


def _numbers(text: str) -> set[int]:
    """The numbers of ``0, 2, 5-7``."""
    found: set[int] = set()
    for low, high in _NUMBERS.findall(text):
        found.update(range(int(low), int(high or low) + 1))
    return found
