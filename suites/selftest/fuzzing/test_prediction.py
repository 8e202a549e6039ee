"""Tests what is predicted of mutated programs: a table of programs, and what must come of them."""

from __future__ import annotations

import random
import unittest

from hypothesis import given
from hypothesis import strategies as st

from harness.fuzzing import CollectiveStep, Message, Program, Regroup, Step, Straggler, programs
from harness.fuzzing.mutation import Mutation, MutationKind, mutated
from harness.fuzzing.prediction import Prediction, predict
from harness.fuzzing.schedule import ALL, RECEIVE, SEND
from harness.hypothesis_examples import bounded

EVERYONE = (0, 1, 2)
BARRIER = CollectiveStep("barrier", EVERYONE)
SUM = CollectiveStep("all_reduce", EVERYONE)
LATER = CollectiveStep("all_reduce", EVERYONE, delay=2)
BROADCAST = CollectiveStep("broadcast", EVERYONE)
HELLO = Message(0, 1, EVERYONE)
EMPTY_OBJECTS = CollectiveStep("all_gather_object", EVERYONE, shape=(0,))
OBJECTS_OF_ONE = CollectiveStep("broadcast_object_list", EVERYONE)
LATE_SUM = CollectiveStep("all_reduce", EVERYONE, delay=1, missing=2)
BARRIER_OF_TWO = CollectiveStep("barrier", (1, 2))
MANAGED_SUM = CollectiveStep("all_reduce", EVERYONE, managed=True)
COALESCED_SUM = CollectiveStep("all_reduce_coalesced", EVERYONE)
SCATTER = CollectiveStep("scatter", EVERYONE, shape=(4,))
SCATTER_COMPLEX = CollectiveStep("scatter", EVERYONE, "complex64", shape=(2,))
AS_MANY_COMPLEX = CollectiveStep("scatter", EVERYONE, "complex64", shape=(4,))
OBJECTS_OF_TWO = CollectiveStep("broadcast_object_list", EVERYONE, root=2)


def dropped(number: int, rank: int, part: str = ALL) -> Mutation:
    """A rank that drops a call."""
    return Mutation(MutationKind.DROP, rank, number, part)


def swapped(number: int, rank: int, other: int, part: str = ALL, of_other: str = ALL) -> Mutation:
    """A rank that does one call before another."""
    return Mutation(MutationKind.SWAP, rank, number, part, other=(other, of_other))


def instead(number: int, rank: int, step: CollectiveStep | Message, part: str = ALL) -> Mutation:
    """A rank that gives a call other arguments."""
    return Mutation(MutationKind.ARGUMENTS, rank, number, part, step)


#: Programs of three ranks, a mutation, and what must come of it.
TABLE: tuple[tuple[str, tuple[Step, ...], Mutation, Prediction], ...] = (
    ("the others wait", (SUM,), dropped(0, 1), Prediction.HANGS),
    ("one more", (SUM,), Mutation(MutationKind.DOUBLE, 1, 0, ALL, SUM), Prediction.HANGS),
    ("the next call is another one", (BARRIER, SUM), dropped(0, 1), Prediction.DIFFERS),
    ("the next call is the same", (SUM, SUM), dropped(0, 1), Prediction.HANGS),
    ("nobody has to wait for a leaf", (BROADCAST,), dropped(0, 1), Prediction.OPEN),
    ("leaves wait for the root", (BROADCAST,), dropped(0, 0), Prediction.HANGS),
    ("the root waits for leaves", (CollectiveStep("gather", EVERYONE),), dropped(0, 1), Prediction.HANGS),
    ("empty tensors", (CollectiveStep("all_reduce", EVERYONE, shape=(0,)),), dropped(0, 1), Prediction.OPEN),
    ("objects of nothing", (EMPTY_OBJECTS,), dropped(0, 1), Prediction.HANGS),
    ("objects for one rank", (CollectiveStep("gather_object", EVERYONE),), dropped(0, 1), Prediction.HANGS),
    ("objects of one rank", (OBJECTS_OF_ONE,), dropped(0, 1), Prediction.OPEN),
    ("nobody's objects", (OBJECTS_OF_ONE,), dropped(0, 0), Prediction.HANGS),
    ("objects of another rank", (OBJECTS_OF_ONE,), instead(0, 1, OBJECTS_OF_TWO), Prediction.DIFFERS),
    ("a managed call of the others", (MANAGED_SUM,), dropped(0, 1), Prediction.HANGS),
    ("managed and plain", (MANAGED_SUM,), instead(0, 1, SUM), Prediction.DIFFERS),
    ("managed and of several tensors", (MANAGED_SUM,), instead(0, 1, COALESCED_SUM), Prediction.RIGHT),
    ("real numbers for complex ones", (SCATTER,), instead(0, 1, SCATTER_COMPLEX), Prediction.RIGHT),
    ("as many real as complex numbers", (SCATTER,), instead(0, 1, AS_MANY_COMPLEX), Prediction.DIFFERS),
    ("a missing rank's others", (LATE_SUM,), dropped(0, 1), Prediction.HANGS),
    ("a missing rank that never comes", (LATE_SUM,), dropped(0, 2), Prediction.HANGS),
    ("a missing rank comes early", (BARRIER_OF_TWO, LATE_SUM), swapped(1, 2, 0), Prediction.RIGHT),
    ("a message to nobody", (HELLO,), dropped(0, 1, RECEIVE), Prediction.OPEN),
    ("a message of nobody", (HELLO,), dropped(0, 0, SEND), Prediction.HANGS),
    ("another tag", (HELLO,), instead(0, 0, Message(0, 1, EVERYONE, tag=1), SEND), Prediction.HANGS),
    ("another size", (HELLO,), instead(0, 0, Message(0, 1, EVERYONE, shape=(3,)), SEND), Prediction.DIFFERS),
    (
        "another root",
        (BROADCAST,),
        instead(0, 1, CollectiveStep("broadcast", EVERYONE, root=2)),
        Prediction.DIFFERS,
    ),
    (
        "handles of two groups",
        (CollectiveStep("barrier", (0, 1), delay=2), CollectiveStep("barrier", (0, 2), delay=2)),
        swapped(1, 0, 0),
        Prediction.RIGHT,
    ),
    (
        "groups crossed",
        (CollectiveStep("barrier", (0, 1)), BARRIER),
        swapped(1, 0, 0),
        Prediction.HANGS,
    ),
    ("a handle and a message", (LATER, HELLO), swapped(1, 0, 0, SEND), Prediction.RIGHT),
    ("a call of the group before", (SUM, Regroup(EVERYONE), SUM), dropped(0, 1), Prediction.HANGS),
    ("a leaf of the group before", (BROADCAST, Regroup(EVERYONE), SUM), dropped(0, 1), Prediction.OPEN),
    ("a leaf without another group", (BROADCAST, Regroup((0, 1)), SUM), dropped(0, 1), Prediction.DIFFERS),
    ("members make a group", (SUM, Regroup((0, 1)), BARRIER), dropped(0, 1), Prediction.HANGS),
    ("no member waits for one", (SUM, Regroup((0, 2)), BARRIER), dropped(0, 1), Prediction.DIFFERS),
    ("a straggler that nobody frees", (SUM, Straggler(0)), dropped(0, 1), Prediction.HANGS),
)


class PredictTest(unittest.TestCase):
    """Predictions of the table's programs, and of random ones."""

    def test_table(self) -> None:
        """Each program comes to what its row says."""
        for name, steps, mutation, expected in TABLE:
            with self.subTest(name):
                self.assertIs(predict(Program(3, steps), mutation), expected)

    @bounded(100)
    @given(programs(3), st.integers(0, 1 << 30))
    def test_calls_that_are_left_over(self, program: Program, seed: int) -> None:
        """A dropped or doubled call is never right, because its counterpart is left over."""
        mutation = mutated(program, random.Random(seed))
        if mutation is not None and mutation.change in (MutationKind.DROP, MutationKind.DOUBLE):
            self.assertIsNot(predict(program, mutation), Prediction.RIGHT)

    @bounded(100)
    @given(programs(3))
    def test_nothing_changed(self, program: Program) -> None:
        """A program with a mutation that changes nothing is right."""
        self.assertIs(
            predict(program, Mutation(MutationKind.DROP, 0, len(program.steps), ALL)), Prediction.RIGHT
        )


if __name__ == "__main__":
    unittest.main()
