"""Tests which programs the strategy draws, and which arguments it refuses."""

from __future__ import annotations

import os
import unittest
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from unittest import mock

from hypothesis.strategies import SearchStrategy

from harness import UsageError, same_draws
from harness.fuzzing import GLOO, Backend, CollectiveStep, Message, Program, Regroup, Straggler, programs
from harness.fuzzing.draw import drawn, fitted, groups_of
from harness.fuzzing.program import MANAGED

DRAWS = 250


def some_of(strategy: SearchStrategy[Program], count: int = DRAWS) -> list[Program]:
    return list(same_draws(strategy, count, seed=0))


class Drawing(unittest.TestCase):
    """The random programs of ``programs`` and ``drawn``."""

    def test_everything_there_is(self) -> None:
        found: Counter[str] = Counter()
        for program in some_of(programs(3)):
            for step in program.steps:
                found[type(step).__name__] += 1
                if isinstance(step, CollectiveStep):
                    found.update((step.kind, step.dtype, step.op, str(step.group)))
                    found["taken up"] += step.takes is not None
                    found["asynchronous"] += step.delay is not None
                    found["large"] += step.shape == (70001,)
                    found["views"] += step.views
                    found["gaps"] += step.gaps
                    found["missing"] += step.missing is not None
                    found["managed"] += step.managed
                    found["managed with gaps"] += step.managed and step.gaps
                if isinstance(step, Message):
                    found["receiver first"] += step.lag < 0
                    found["views of a message"] += step.views
                    found["message of objects"] += step.objects
                    found["sender first"] += step.lag > 0
        wanted = (
            *GLOO.kinds,
            "bfloat16",
            "complex128",
            "bxor",
            "avg",
            "(0, 2)",
            "Straggler",
            "Regroup",
            "taken up",
            "large",
            "views",
            "gaps",
            "managed",
            "missing",
            "managed with gaps",
            "views of a message",
            "message of objects",
        )
        for each in (*wanted, "asynchronous", "receiver first", "sender first"):
            self.assertGreater(found[each], 5, each)

    def test_groups_are_made_for_what_comes_next(self) -> None:
        one = CollectiveStep("barrier", (0, 1))
        steps = (Regroup((0, 2)), Straggler(0), one, Regroup((0, 2)))
        self.assertEqual(fitted(steps), (Regroup((0, 1)), *steps[1:]))

    def test_a_backend_on_which_no_groups_are_made(self) -> None:
        for program in some_of(programs(3, backend=Backend(regroups=False)), 50):
            self.assertNotIn("Regroup", str(program))

    def test_a_backend_that_takes_no_gaps(self) -> None:
        for program in some_of(programs(3, backend=Backend(gapped=(), managed=MANAGED)), 50):
            self.assertNotIn("gaps", str(program))

    def test_a_backend_without_timeouts(self) -> None:
        for program in some_of(programs(3, backend=Backend(timed=())), 50):
            self.assertNotIn("missing", str(program))

    def test_a_backend_that_coalesces_nothing(self) -> None:
        for program in some_of(programs(3, backend=Backend(managed=())), 50):
            self.assertNotIn("managed", str(program))

    def test_groups(self) -> None:
        self.assertEqual(groups_of(2), ((0, 1),))
        self.assertEqual(groups_of(3), ((0, 1, 2), (0, 1), (0, 2), (1, 2)))
        self.assertEqual(len(groups_of(4)), 11)
        self.assertEqual(
            groups_of(6), ((0, 1, 2, 3, 4, 5), (0, 1, 2), (3, 4, 5), (0, 2, 4), (1, 3, 5), (0, 5))
        )

    def test_only_what_the_backend_can_do(self) -> None:
        backend = Backend(
            dtypes=("int32", "bool"),
            kinds=("all_reduce", "barrier"),
            refuses={"all_reduce": ("bool",)},
            messages=False,
        )
        steps = [s for program in some_of(programs(2, backend=backend)) for s in program.steps]
        kinds = {(s.kind, s.dtype) for s in steps if isinstance(s, CollectiveStep)}
        self.assertEqual(kinds, {("all_reduce", "int32"), ("barrier", "float32")})
        self.assertFalse([s for s in steps if isinstance(s, Message)])
        without = some_of(programs(2, backend=replace(backend, messages=True)))
        sent = [s for program in without for s in program.steps if isinstance(s, Message)]
        self.assertEqual({s.objects for s in sent}, {False})

    def test_other_groups_and_lengths(self) -> None:
        found = some_of(programs(4, groups=[(1, 3)], max_steps=2), 100)
        self.assertLessEqual({group for program in found for group in program.groups}, {(1, 3)})
        self.assertEqual({len(program.steps) for program in found}, {1, 2})

    def test_one_rank_has_nobody_to_talk_to(self) -> None:
        with self.assertRaisesRegex(UsageError, "it takes two"):
            programs(1)

    def test_what_no_programs_can_be_made_of(self) -> None:
        refusals: tuple[tuple[str, Callable[[], object]], ...] = (
            ("no groups or of no steps", lambda: programs(2, groups=[])),
            ("no groups or of no steps", lambda: programs(2, max_steps=0)),
            ("there is no rank .5.", lambda: programs(3, groups=[(0, 1), (0, 5)])),
        )
        for words, refused in refusals:
            with self.subTest(words), self.assertRaisesRegex(UsageError, words):
                refused()

    def test_the_same_in_each_run_unless_asked_for_others(self) -> None:
        def some(count: int, **environ: str) -> list[Program]:
            with mock.patch.dict(os.environ, environ):
                return list(drawn(programs(2), count))

        with mock.patch.dict(os.environ):
            os.environ.pop("HARNESS_EXAMPLES", None)
            self.assertEqual(some(120), some(120))
            self.assertEqual(len(some(120)), 120)
            os.environ.pop("HARNESS_SEED", None)
            self.assertEqual(len(some(1, HARNESS_EXAMPLES="7")), 7)
            self.assertNotEqual(some(1, HARNESS_EXAMPLES="9"), some(1, HARNESS_EXAMPLES="9"))
            asked = {"HARNESS_EXAMPLES": "9", "HARNESS_SEED": "7"}
            self.assertEqual(some(1, **asked), some(1, **asked))


if __name__ == "__main__":
    unittest.main()
