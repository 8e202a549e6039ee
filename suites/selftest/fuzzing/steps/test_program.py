"""Tests train steps as values: what is drawn, what is refused, how they are made smaller and encoded."""

from __future__ import annotations

import json
import random
import unittest
from dataclasses import replace

import torch

from harness.errors import UsageError
from harness.fuzzing.steps.program import (
    OPTIMIZERS,
    REFUSED,
    Call,
    StepProgram,
    drawn,
    from_json,
    simpler,
    to_json,
)

PLAIN = StepProgram(1, (), "SGD", (), (("warm_up", True),), (Call(),))


class DrawnTest(unittest.TestCase):
    def test_what_is_drawn(self) -> None:
        choice = random.Random(1)
        programs = [drawn(choice, 2) for _ in range(400)]
        self.assertEqual({each.optimizer for each in programs}, {*OPTIMIZERS})
        self.assertEqual({name for each in programs for name in each.blocks} & REFUSED, set())
        self.assertTrue({"sparse", "hooked", "branch", "sometimes"} <= REFUSED)
        self.assertEqual({call.trains for each in programs for call in each.calls}, {True, False})

    def test_torch_takes_the_options(self) -> None:
        parameter = torch.nn.Parameter(torch.ones(2))
        for name, options in OPTIMIZERS.items():
            with self.subTest(optimizer=name):
                getattr(torch.optim, name)([parameter], lr=0.5, **options)

    def test_names_that_are_not_there(self) -> None:
        for change in ({"blocks": ("none",)}, {"optimizer": "None"}):
            with self.subTest(change=change), self.assertRaises(UsageError):
                replace(PLAIN, **change)


class ValueTest(unittest.TestCase):
    def test_encoded(self) -> None:
        program = replace(PLAIN, optimizer="AdamW", options=(("betas", (0.5, 0.9)),), blocks=("linear",))
        self.assertEqual(from_json(json.loads(json.dumps(to_json(program)))), program)

    def test_simpler_comes_to_the_plain_one(self) -> None:
        choice = random.Random(2)
        for _ in range(50):
            program, rounds = drawn(choice, 2), 0
            while found := list(simpler(program)):
                program, rounds = found[-1], rounds + 1
                self.assertLess(rounds, 200)
            self.assertEqual(program, PLAIN)


if __name__ == "__main__":
    unittest.main()
