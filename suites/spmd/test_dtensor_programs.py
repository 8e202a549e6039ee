"""Random programs of DTensors do what they do on plain tensors, but for what is in the book.

One process plays four ranks. What torch is known to get wrong is an entry of ``suites/bugs``, which knows its
failures again; only what is not in the book fails a test. ``HARNESS_EXAMPLES=10000`` looks for more.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import (  # noqa: F401  (unittest calls load_tests)
    LocalDTensorContinuousTestBase,
    environment,
    load_tests,
    run_tests,
)
from harness.fuzzing.dtensors.draw import drawn
from harness.fuzzing.dtensors.execute import failure
from harness.fuzzing.dtensors.hunted import DTensorPrograms
from harness.fuzzing.dtensors.program import DTensorProgram, Input, Statement
from harness.fuzzing.dtensors.ranks import PlayedRanks
from harness.fuzzing.dtensors.shrink import simpler
from harness.fuzzing.hunted import Rejected
from harness.fuzzing.signature import of_exception
from harness.hypothesis_examples import seed_of_examples, wanted
from suites.bugs.book import known

RANKS = 4
#: Programs of each test, which take a tenth of a second or more each.
EXAMPLES = 15
#: How many simpler programs are tried before what is found counts as the smallest.
ATTEMPTS = 60
#: Of the programs, the part that DTensor has to run rightly to the end.
MOST = 0.5


class DTensorProgramsTest(LocalDTensorContinuousTestBase):
    """Programs by what they may have."""

    world_size = RANKS

    def check(self, **kinds):
        """Fail for a program that fails and is not in the book, and where too few are right."""
        ranks, right, count = PlayedRanks(RANKS), 0, wanted(EXAMPLES)
        seeds = random.Random(seed_of_examples(str(kinds)))
        for _ in range(count):
            seed = seeds.getrandbits(48)
            with ranks.plain():
                program = drawn(seed, RANKS, **kinds)
            error = failure(program, ranks)
            right += error is None
            if error is None or isinstance(error, Rejected):
                continue
            if not self.is_known(program, error, ranks):
                self.check_shrunk(program, error, ranks, seed)
        self.assertGreater(right, MOST * count)

    def is_known(self, program, error, ranks):
        return known(self.signature(program, error, ranks)) is not None

    def signature(self, program, error, ranks):
        with ranks.plain():  # local mode would keep a buffer's shape where out= gives it another
            return str(DTensorPrograms().signature(program, of_exception(error)))

    def check_shrunk(self, program, error, ranks, seed):
        """Fail unless the smallest program found that fails like this one is in the book."""
        small, its_error = self.shrunk(program, error, ranks)
        if not self.is_known(small, its_error, ranks):
            script = DTensorPrograms().script(small)
            raise AssertionError(
                f"not in the book: {self.signature(small, its_error, ranks)}\n{small}\n"
                f"shrunk from that of seed {seed}: {self.signature(program, error, ranks)}\n\n{script}"
            )

    def shrunk(self, program, error, ranks):
        """The smallest program found that fails with the same type of error, and its error."""
        left = ATTEMPTS
        candidates = simpler(program)
        while left and (candidate := self.next_of(candidates, ranks)) is not None:
            if candidate.world_size == RANKS:
                left -= 1
                found = failure(candidate, ranks)
                if type(found) is type(error):
                    program, error, candidates = candidate, found, simpler(candidate)
        return program, error

    def next_of(self, candidates, ranks):
        """The next simpler program, for which plain tensors are asked, None at the end."""
        with ranks.plain():
            return next(candidates, None)

    def test_without_writes(self):
        """Operators, views, redistributions and backwards on shards and replicas."""
        self.check(in_place=False, partial=False)

    def test_everything(self):
        """Writes, partial tensors and lists of tensors too."""
        self.check()

    def test_signature_of_a_buffer_that_changes_its_shape(self):
        """A program's structure is that of plain tensors, though one process plays all ranks."""
        inputs = Input((5,), ("Shard(0)",)), Input((), ("Replicate()",))
        statements = (
            Statement("torch.add({1}, 1, out={0})", (1, 0)),
            Statement("torch.nn.functional.linear({0}, {1})", (0, 2)),
        )
        program = DTensorProgram((RANKS,), inputs, statements)
        signature = self.signature(program, ValueError("odd"), PlayedRanks(RANKS))
        self.assertIn("uneven Shard; torch.add({1}, 1, out={0}); torch.nn.functional.linear(", signature)


if __name__ == "__main__":
    run_tests()
