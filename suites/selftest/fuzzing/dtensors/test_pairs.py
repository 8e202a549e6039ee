"""Tests the sweep over pairs of operators: that it is all of them, and that most are run and judged."""

from __future__ import annotations

import itertools
import unittest
from unittest import mock

from torch.distributed.tensor import Partial

from harness.fuzzing.dtensors import pairs as module
from harness.fuzzing.dtensors.execute import failure
from harness.fuzzing.dtensors.operators import ALL
from harness.fuzzing.dtensors.pairs import MAKERS, MESHES, PAIRS, PLACEMENTS, SLICES, pairs
from harness.fuzzing.dtensors.program import DTensorProgram
from harness.fuzzing.dtensors.ranks import played
from harness.fuzzing.hunted import Rejected
from tools.hunting.worker import PROGRAMS

# A slice of the first sweep, whose meshes have two ranks.
SEED = 7


def pair(program: DTensorProgram) -> tuple[str, str, str]:
    """The operator, what makes its operand, and the input's placement on the first mesh dimension."""
    first, *_, last = program.statements[0], program.statements[-1]
    maker = first.template if len(program.statements) > 1 else ""
    return last.template, maker, program.inputs[0].placements[0]


class PairsTest(unittest.TestCase):
    def test_slices_are_all_pairs(self) -> None:
        """As many seeds in a row as there are slices have each operator on each value once."""
        with mock.patch.object(module, "runs_plain", return_value=True):
            drawn = [pair(program) for seed in range(SLICES) for program in pairs(SEED + seed)]
        self.assertEqual(len(drawn), PAIRS)
        self.assertLessEqual(PAIRS / SLICES, PROGRAMS, "the hunt leaves out what is more")
        self.assertEqual(set(drawn), set(itertools.product(ALL, MAKERS, PLACEMENTS)))

    def test_plain_tensors_run_most_of_them(self) -> None:
        """What they cannot run is left out: less than a half."""
        self.assertGreater(len(list(pairs(SEED))), PAIRS / SLICES / 2)

    def test_seed_draws_the_rest(self) -> None:
        """The slice of another sweep has the same pairs on another mesh; each slice has all sorts."""
        one, other = list(pairs(SEED)), list(pairs(SEED + SLICES))
        self.assertEqual(({p.mesh for p in one}, {p.mesh for p in other}), ({MESHES[0]}, {MESHES[1]}))
        self.assertGreater(len({p.statements[-1].template for p in one}), 30)
        self.assertEqual({p.backward for p in one}, {True, False})
        self.assertEqual({each.dtype for p in one for each in p.inputs}, {"float64", "int64"})
        self.assertTrue([p for p in one if any(each.placements for each in p.statements)])

    def test_most_are_judged(self) -> None:
        """DTensor supports most of them, and a sum that is reduced wrongly fails some."""
        reduced = Partial._reduce_value
        with mock.patch.object(Partial, "_reduce_value", lambda *args: reduced(*args) * 3):
            wrong = self.wrong()
        self.assertGreater(len(wrong - self.wrong()), 3)

    def wrong(self) -> set[DTensorProgram]:
        """The programs of a slice whose numbers are wrong; fails unless most run to the end."""
        programs = list(itertools.islice(pairs(SEED), 30))
        with played(2) as ranks:
            ends = {program: failure(program, ranks) for program in programs}
        self.assertLess(sum(isinstance(end, Rejected) for end in ends.values()), len(programs) / 2)
        return {program for program, end in ends.items() if isinstance(end, AssertionError)}


if __name__ == "__main__":
    unittest.main()
