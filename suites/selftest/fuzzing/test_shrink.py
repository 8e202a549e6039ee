"""Tests shrinking: which programs are simpler, and that the smallest failing program is found."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given

from harness import same_draws
from harness.fuzzing import CollectiveStep, Message, Program, Step, Straggler, programs
from harness.fuzzing.shrink import simpler, smallest, without
from harness.hypothesis_examples import bounded

ALL = (0, 1, 2)


def has(wanted: Callable[[Step], bool]) -> Callable[[Program], bool]:
    return lambda program: any(map(wanted, program.steps))


class Shrinking(unittest.TestCase):
    """The function ``smallest``, and the programs that it tries."""

    random: tuple[Program, ...]

    @classmethod
    def setUpClass(cls) -> None:
        cls.random = same_draws(programs(3), 300, seed=0)

    def shrunk(self, wanted: Callable[[Step], bool]) -> Program:
        """The one program to which the first few random programs with such a step all shrink."""
        fails = has(wanted)
        found = [p for p in self.random if fails(p)]
        self.assertGreater(len(found), 2)
        (one,) = {smallest(program, fails) for program in found[:8]}
        return one

    def test_to_the_step_that_matters(self) -> None:
        for kind in ("all_reduce", "gather", "barrier", "all_to_all_single"):
            with self.subTest(kind):
                program = self.shrunk(lambda step, kind=kind: getattr(step, "kind", "") == kind)  # type: ignore[misc]  # mypy cannot infer a lambda with a default
                self.assertEqual(program, Program(3, (CollectiveStep(kind, ALL),)))
        plain = Program(3, (Message(0, 1, ALL),))
        self.assertEqual(self.shrunk(lambda step: isinstance(step, Message)), plain)
        self.assertEqual(self.shrunk(lambda step: isinstance(step, Straggler)), Program(3, (Straggler(0),)))

    def test_keeps_what_matters_of_a_step(self) -> None:
        program = self.shrunk(lambda step: isinstance(step, Message) and step.lag < 0)
        (step,) = program.steps
        assert isinstance(step, Message)
        self.assertEqual(step, Message(0, 1, ALL, receive=0, lag=-1))

    def test_settings_that_matter(self) -> None:
        """Of a step with many settings that one alone which matters is left, with what it needs."""
        busy = CollectiveStep("all_reduce", (0, 2), "int32", (3,), op="max", delay=2, views=True)
        settings: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
            ({"managed": True}, {"managed": True}),
            ({"missing": 2}, {"missing": 0, "delay": 0}),
        )
        for setting, left in settings:
            (name,) = setting
            step: Any = replace(busy, **setting)
            wanted: Any = replace(CollectiveStep("all_reduce", ALL), **left)
            program = Program(3, (CollectiveStep("barrier", ALL), step))
            plain = getattr(CollectiveStep("all_reduce", ALL), name)
            fails = has(lambda step, name=name, plain=plain: getattr(step, name, plain) is not plain)  # type: ignore[misc]  # as above
            self.assertEqual(smallest(program, fails), Program(3, (wanted,)))

    def test_two_steps_that_matter_together(self) -> None:
        first: tuple[Step, ...] = (CollectiveStep("barrier", ALL), CollectiveStep("broadcast", ALL))
        last: Step = CollectiveStep("all_gather", (0, 2), takes=1, delay=1)
        program = Program(3, (*first, *[Straggler(1)] * 5, last))

        def fails(program: Program) -> bool:
            return any(getattr(step, "takes", None) is not None for step in program.steps)

        wanted = (CollectiveStep("broadcast", ALL), CollectiveStep("all_gather", ALL, takes=0))
        self.assertEqual(smallest(program, fails), Program(3, wanted))

    @bounded(30)
    @given(programs(3))
    def test_all_that_is_tried_is_simpler_and_a_program(self, program: Program) -> None:
        for candidate in simpler(program):
            self.assertNotEqual(candidate, program)
            self.assertLessEqual(len(candidate.steps), len(program.steps))

    def test_nothing_is_tried_twice(self) -> None:
        tried: list[Program] = []

        def fails(program: Program) -> bool:
            tried.append(program)
            return has(lambda step: getattr(step, "kind", "") == "gather")(program)

        first = next(p for p in self.random if len(p.steps) > 6 and fails(p))
        tried.clear()
        smallest(first, fails)
        self.assertEqual(len(tried), len(set(tried)))

    def test_what_was_taken_up_is_renumbered_or_gone(self) -> None:
        first, second = CollectiveStep("broadcast", ALL), CollectiveStep("all_reduce", ALL, takes=1)
        program = Program(3, (Straggler(0), first, second))
        self.assertEqual(
            without(program, range(1)).steps, (first, CollectiveStep("all_reduce", ALL, takes=0))
        )
        self.assertEqual(
            without(program, range(1, 2)).steps, (Straggler(0), CollectiveStep("all_reduce", ALL))
        )


if __name__ == "__main__":
    unittest.main()
