"""Tests what a mutation makes of a rank's actions, and that every mutation is another call."""

from __future__ import annotations

import json
import random
import unittest

from hypothesis import given
from hypothesis import strategies as st

from harness import UsageError
from harness.fuzzing import CollectiveStep, Message, Program, Straggler, programs
from harness.fuzzing.mutation import (
    Mutation,
    MutationKind,
    facts,
    from_json,
    interpreted,
    mutated,
    mutations,
    to_json,
)
from harness.fuzzing.reference import input_shapes
from harness.fuzzing.schedule import ALL, RECEIVE, SEND, schedule
from harness.hypothesis_examples import bounded

EVERYONE = (0, 1, 2)
PROGRAM = Program(
    3,
    (
        CollectiveStep("all_reduce", EVERYONE, delay=1),
        CollectiveStep("broadcast", EVERYONE, root=1),
        Straggler(0),
        Message(0, 2, EVERYONE),
    ),
)


def actions(mutation: Mutation, rank: int) -> list[tuple[int, bool]]:
    """The numbers of a rank's steps, each with whether it is the wait."""
    return [(action.number, action.waits) for action in mutation.actions(PROGRAM, rank)]


class ActionsTest(unittest.TestCase):
    """The actions of a mutated rank; here step 4 is the mutated rank's own."""

    def test_kinds(self) -> None:
        """Each kind of change, of a call with a handle; waits are marked."""
        own = CollectiveStep("all_reduce", EVERYONE, delay=1, op="max")
        rows = (
            (Mutation(MutationKind.DROP, 0, 0, ALL), [(1, False), (2, False), (3, False)]),
            (
                Mutation(MutationKind.DOUBLE, 0, 0, ALL, PROGRAM.steps[0]),  # type: ignore[arg-type]  # no straggler
                [(0, False), (4, False), (1, False), (0, True), (4, True), (2, False), (3, False)],
            ),
            (
                Mutation(MutationKind.ARGUMENTS, 0, 0, ALL, own),
                [(4, False), (1, False), (4, True), (2, False), (3, False)],
            ),
            (
                Mutation(MutationKind.SWAP, 0, 1, ALL, other=(0, ALL)),
                [(1, False), (0, False), (0, True), (2, False), (3, False)],
            ),
        )
        for mutation, expected in rows:
            with self.subTest(mutation.change.value):
                self.assertEqual(actions(mutation, 0), expected)
                for rank in (1, 2):
                    self.assertEqual(mutation.actions(PROGRAM, rank), schedule(PROGRAM, rank))

    def test_text(self) -> None:
        """The sentence names the rank, the step and what is done with it."""
        text = Mutation(MutationKind.DROP, 2, 3, RECEIVE).text(PROGRAM)
        self.assertEqual(
            text, "rank 2 drops the receive of step 3, Message(source=0, target=2, group=(0, 1, 2))"
        )
        self.assertIn("does step 1, ", Mutation(MutationKind.SWAP, 0, 1, ALL, other=(0, ALL)).text(PROGRAM))


class DrawingTest(unittest.TestCase):
    """Mutations that are drawn."""

    def test_none(self) -> None:
        """Ranks that make no call have none to change."""
        self.assertIsNone(mutated(Program(2, (Straggler(0),)), random.Random(0)))
        lonely = Program(2, (CollectiveStep("barrier", (0, 1)),))
        self.assertEqual([*mutations(lonely, 0, MutationKind.ARGUMENTS)], [])
        self.assertEqual([*mutations(lonely, 0, MutationKind.SWAP)], [])

    def test_stragglers_stay(self) -> None:
        """No call is swapped with the arrival of a straggler, nor is that dropped."""
        swaps = [*mutations(PROGRAM, 0, MutationKind.SWAP)]
        self.assertEqual([(each.number, each.other) for each in swaps], [(1, (0, ALL))])
        self.assertEqual([each.number for each in mutations(PROGRAM, 0, MutationKind.DROP)], [0, 1, 3])

    def test_arguments(self) -> None:
        """Every argument that may be otherwise is, for its kind of call."""
        steps = [each.step for each in mutations(PROGRAM, 0, MutationKind.ARGUMENTS)]
        reduces = [s for s in steps if isinstance(s, CollectiveStep) and s.kind == "all_reduce"]
        self.assertEqual({s.op for s in reduces}, {"sum", "avg", "product", "min", "max"})
        self.assertEqual({s.shape for s in reduces}, {(2,), (3,)})
        roots = [s.root for s in steps if isinstance(s, CollectiveStep) and s.kind == "broadcast"]
        self.assertEqual(set(roots), {0, 1, 2})
        messages = [s for s in steps if isinstance(s, Message)]
        self.assertEqual({(s.target, s.tag) for s in messages}, {(1, 0), (2, 0), (2, 1)})

    def test_objects_may_have_any_size(self) -> None:
        """Another length or dtype on one rank is no other call; another root is."""
        program = Program(3, (CollectiveStep("scatter_object_list", EVERYONE),))
        steps = [each.step for each in mutations(program, 0, MutationKind.ARGUMENTS)]
        self.assertEqual([s.root for s in steps if isinstance(s, CollectiveStep)], [1, 2])

    @bounded(100)
    @given(programs(3), st.integers(0, 1 << 30))
    def test_each_is_another_call(self, program: Program, seed: int) -> None:
        """A drawn mutation is a function of its seed, changes one rank, and can be played."""
        mutation = mutated(program, random.Random(seed))
        self.assertEqual(mutation, mutated(program, random.Random(seed)))
        if mutation is None:
            return
        self.assertEqual(from_json(json.loads(json.dumps(to_json(mutation)))), mutation)
        changed = [r for r in range(3) if mutation.actions(program, r) != schedule(program, r)]
        self.assertEqual(changed, [mutation.rank])
        if mutation.change is MutationKind.ARGUMENTS:
            assert mutation.step is not None
            before = program.steps[mutation.number]
            assert isinstance(before, CollectiveStep | Message)
            self.assertNotEqual(facts(before, mutation.part), facts(mutation.step, mutation.part))
        if isinstance(mutation.step, CollectiveStep):
            given = interpreted(program, mutation).inputs[len(program.steps), mutation.rank]
            shapes = input_shapes(mutation.step, mutation.step.group.index(mutation.rank))
            self.assertEqual(tuple(array.shape for array in given), shapes)


class JsonTest(unittest.TestCase):
    """Mutations as JSON."""

    def test_wrong_values(self) -> None:
        """Other values are refused."""
        right = to_json(Mutation(MutationKind.DROP, 0, 3, SEND))
        for wrong in ({}, {**right, "change": "?"}, {**right, "step": {"step": "Straggler", "rank": 0}}):
            with self.subTest(wrong), self.assertRaisesRegex(UsageError, "not a mutation"):
                from_json(wrong)


if __name__ == "__main__":
    unittest.main()
