"""Tests programs as values: which are valid, what their repr is, and that they survive JSON."""

from __future__ import annotations

import json
import unittest
from typing import Any

from hypothesis import given

from harness.errors import UsageError
from harness.fuzzing import CollectiveStep, Message, Program, Regroup, Straggler, programs
from harness.fuzzing.program import from_json, to_json
from harness.hypothesis_examples import bounded

ALL = (0, 1, 2)


class Values(unittest.TestCase):
    """Steps and programs check their fields and show the code that makes them."""

    def refused(self, words: str, kind: type, *args: Any, **fields: Any) -> None:
        with self.subTest(words), self.assertRaisesRegex(UsageError, words):
            kind(*args, **fields)

    def test_a_collective_that_is_none(self) -> None:
        self.refused("'sum_up' is no collective; there are all_reduce", CollectiveStep, "sum_up", ALL)
        self.refused("group \\[0, 1\\]: give a tuple of ranks", CollectiveStep, "all_reduce", [0, 1])
        self.refused("a group of no ranks", CollectiveStep, "all_reduce", ())
        self.refused("name each rank once, in order", CollectiveStep, "all_reduce", (1, 0))
        self.refused("'float8' is no dtype", CollectiveStep, "all_reduce", ALL, dtype="float8")
        self.refused("a shape of \\(2, -1\\)", CollectiveStep, "all_reduce", ALL, shape=(2, -1))
        self.refused("'xor' is no operation", CollectiveStep, "all_reduce", ALL, op="xor")
        self.refused("bxor is not defined for float32", CollectiveStep, "all_reduce", ALL, op="bxor")
        self.refused("root 3 is not in a group of 3", CollectiveStep, "broadcast", ALL, root=3)
        self.refused("needs a dimension to cut along", CollectiveStep, "all_to_all_single", ALL, shape=())
        for wrong in ({"delay": 0}, {"views": True}):
            self.refused(
                "gather_object is synchronous and has no", CollectiveStep, "gather_object", ALL, **wrong
            )
        for kind, views in (("all_gather", False), ("broadcast", True)):
            self.refused(
                "gaps are for views, managed calls and all_reduce_",
                CollectiveStep,
                kind,
                ALL,
                views=views,
                gaps=True,
            )
        self.refused("managed calls are all_reduce,", CollectiveStep, "broadcast", ALL, managed=True)
        managed = CollectiveStep("all_reduce", ALL, views=True, gaps=True, managed=True)
        self.assertEqual(managed.operation, "all_reduce_coalesced")
        timed: tuple[tuple[str, str, dict[str, Any]], ...] = (
            ("rank 3 is no other member", "all_reduce", {"missing": 3, "delay": 0}),
            ("timeouts are for handles of all_reduce,", "all_reduce", {"missing": 0}),
            ("timeouts are for handles of", "reduce_scatter", {"missing": 0, "delay": 0}),
            ("timeouts are for handles of", "all_reduce", {"missing": 0, "delay": 0, "managed": True}),
            ("nobody is waited for", "all_reduce", {"missing": 0, "delay": 0, "shape": (0,)}),
            ("nobody is waited for", "all_to_all_single", {"missing": 0, "delay": 0, "uneven": True}),
        )
        for words, kind, values in timed:
            self.refused(words, CollectiveStep, kind, ALL, **values)
        self.refused("a delay of -1 steps", CollectiveStep, "all_reduce", ALL, delay=-1)

    def test_a_message_that_is_none_or_could_block(self) -> None:
        self.refused("rank 1 cannot send to itself", Message, 1, 1, ALL)
        self.refused("ranks \\[0, 3\\] are not both in group", Message, 0, 3, ALL)
        self.refused("tag -1 is negative", Message, 0, 1, ALL, tag=-1)
        self.refused("must not block: give it a delay", Message, 0, 1, ALL, lag=1)
        self.refused("must not block: give it a delay", Message, 0, 1, ALL, lag=-1, send=0)
        self.assertEqual(Message(0, 1, ALL, lag=-1, receive=0).receive, 0)
        for wrong in ({"send": 0}, {"receive": 0}, {"tag": 1}, {"views": True}):
            self.refused("a message of objects is synchronous", Message, 0, 1, ALL, objects=True, **wrong)

    def test_a_program_that_its_ranks_cannot_run(self) -> None:
        self.refused("a program for 0 ranks", Program, 0, ())
        step = CollectiveStep("barrier", ALL)
        self.refused("step 0: there is no rank \\[2\\]; world size 2", Program, 2, (step,))
        self.refused("step 0: there is no rank \\[5\\]", Program, 2, (Straggler(5),))
        step = CollectiveStep("all_reduce", ALL, takes=0)
        self.refused("step 0 takes 0, which is not before it", Program, 3, (step,))

    def test_messages_that_overtake_need_tags(self) -> None:
        plain, lagging = Message(0, 1, ALL), Message(0, 1, ALL, send=2, lag=1)
        self.refused("by tag 0 may overtake each other", Program, 3, (lagging, plain))
        self.assertEqual(len(Program(3, (plain, plain)).steps), 2)
        self.assertEqual(len(Program(3, (lagging, Message(0, 1, ALL, tag=1))).steps), 2)

    def test_groups_are_those_that_are_used(self) -> None:
        steps = (
            Straggler(2),
            CollectiveStep("barrier", (0, 2)),
            Message(0, 1, ALL),
            CollectiveStep("barrier", (0, 2)),
        )
        self.assertEqual(Program(3, steps).groups, ((0, 2), ALL))

    def test_shows_the_code_that_makes_it(self) -> None:
        step = CollectiveStep("all_reduce", ALL, op="max", delay=0)
        self.assertEqual(repr(step), "CollectiveStep(kind='all_reduce', group=(0, 1, 2), op='max', delay=0)")
        self.assertEqual(
            repr(Message(0, 1, ALL, shape=())), "Message(source=0, target=1, group=(0, 1, 2), shape=())"
        )

    @bounded(50)
    @given(programs(3))
    def test_code_and_json_give_it_back(self, program: Program) -> None:
        self.assertEqual(from_json(json.loads(json.dumps(to_json(program)))), program)
        names = {each.__name__: each for each in (Program, CollectiveStep, Message, Straggler, Regroup)}
        self.assertEqual(eval(repr(program), names), program)

    def test_json_that_is_none(self) -> None:
        for value in ({}, {"world_size": 2, "steps": [{"step": "Dance"}]}, {"world_size": 2, "steps": [{}]}):
            with self.subTest(value), self.assertRaisesRegex(UsageError, "not a program"):
                from_json(value)


if __name__ == "__main__":
    unittest.main()
