"""Tests that running a program notices what DTensor gets wrong, by faults in operators, and nothing else."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

from torch.distributed.tensor import DTensor

from harness.fuzzing.dtensors import execute
from harness.fuzzing.dtensors.execute import differences, failure, is_refusal
from harness.fuzzing.dtensors.program import DTensorProgram, Input, Statement
from harness.fuzzing.dtensors.ranks import played
from harness.fuzzing.hunted import Rejected
from harness.fuzzing.processor_limit import NeverEnds

UNEVEN = Input((5, 3), ("Shard(0)", "Shard(1)"), grad=True)
SUMMED = Input((5, 3), ("Partial()", "Replicate()"))
REDISTRIBUTE = DTensor.redistribute
SCALAR = Input((), ("Replicate()", "Replicate()"))
PROGRAM = DTensorProgram(
    (2, 2),
    (UNEVEN, SUMMED),
    (
        Statement("{0} + {1}", (0, 1)),
        Statement("", (2,), ("Shard(1)", "Replicate()")),
        Statement("{0} * 2", (3,)),
    ),
    backward=True,
)


def found(program: DTensorProgram) -> list[str]:
    """The differences of a program on four ranks that one process plays."""
    with played(program.world_size) as ranks:
        return differences(program, ranks)


def failed(program: DTensorProgram) -> Exception | None:
    """How a program fails on as many ranks."""
    with played(program.world_size) as ranks:
        return failure(program, ranks)


class ExecuteTest(unittest.TestCase):
    def test_right(self) -> None:
        self.assertEqual(found(PROGRAM), [])

    def test_wrong_values(self) -> None:
        """A redistribution that changes numbers is seen."""
        self.check(lambda moved: moved * 2, "^value of v3 differs")

    def test_wrong_gradients(self) -> None:
        """A redistribution that cuts gradients off is seen although all numbers are right."""
        self.check(lambda moved: moved.detach(), "requires_grad of v3 differs")

    def test_wrong_before_an_error(self) -> None:
        """A value of a wrong shape is told, not what it leads to, unless a failed write may have made it."""
        for template, text in (("{0} + {1}", "shape of v3 differs"), ("{0}.add_({1})", None)):
            with self.subTest(template):
                statements = (*PROGRAM.statements[:2], Statement(template, (3, 2)))
                program = replace(PROGRAM, statements=statements, backward=False)
                if text:
                    self.check(lambda moved: moved.t(), text, program)
                else:
                    with self.assertRaises(RuntimeError):
                        self.check(lambda moved: moved.t(), "", program)

    def check(
        self, fault: Callable[[DTensor], DTensor], text: str, program: DTensorProgram = PROGRAM
    ) -> None:
        """Fails unless the first difference is ``text`` where the program's redistribution has a fault."""

        def redistribute(tensor: DTensor, *where: Any, **how: Any) -> DTensor:
            moved = REDISTRIBUTE(tensor, *where, **how)
            return fault(moved) if where else moved  # full_tensor() gives its placements by name

        with mock.patch.object(DTensor, "redistribute", redistribute):
            differing = found(program)
        self.assertRegex(differing[0], text)

    def test_errors_are_raised(self) -> None:
        """An error of DTensor's comes out of the run; one that says what is not supported is a refusal."""
        unsupported = DTensorProgram((2, 2), (UNEVEN,), (Statement("{0}.unfold(0, 2, 1)", (0,)),))
        with self.assertRaises(NotImplementedError) as caught:
            found(unsupported)
        self.assertTrue(is_refusal(caught.exception))
        self.assertIsInstance(failed(unsupported), Rejected)
        flat = DTensorProgram((2, 2), (SCALAR,), (Statement("torch.logsumexp({0}, -1)", (0,)),))
        self.assertIsInstance(failed(flat), RuntimeError, "a check that fails (2.13)")
        self.assertIsNone(failed(PROGRAM))
        self.assertTrue(is_refusal(RuntimeError("Please redistribute the tensor before this operation.")))
        self.assertFalse(is_refusal(RuntimeError("integer modulo by zero")))

    def test_a_program_that_never_ends(self) -> None:
        """One whose operator loops ends by its processor time, and those after it have their turn."""
        self.assertIsNone(failed(PROGRAM))  # what torch imports at the first use is there, and not cut short

        def redistribute(tensor: DTensor, *where: Any, **how: Any) -> DTensor:
            while True:
                pass

        with (
            mock.patch.object(DTensor, "redistribute", redistribute),
            mock.patch.object(execute, "LIMIT_S", 0.5),
        ):
            self.assertIsInstance(failed(PROGRAM), NeverEnds)
        self.assertIsNone(failed(PROGRAM))

    def test_branches_by_rank(self) -> None:
        """Where ranks branch unlike, as by whose rows an index is in, one process cannot play them."""
        inputs = Input((5, 3), ("Replicate()",)), Input((18, 2), ("Shard(0)",))
        statements = (
            Statement("torch.count_nonzero({0})", (0,)),
            Statement("torch.nn.functional.embedding({0}, {1})", (2, 1)),
        )
        refused = failed(DTensorProgram((2,), inputs, statements))
        self.assertIsInstance(refused, Rejected)
        self.assertRegex(str(refused), "^a truth value is True on rank")


if __name__ == "__main__":
    unittest.main()
