"""Random modules trained with DDP do what one process does that computes all ranks.

What torch is known to get wrong is in the book (``suites/bugs``), and is not drawn. ``HARNESS_EXAMPLES=1000``
looks for more.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch.distributed as dist

from harness import environment, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.examples import wanted
from harness.fuzzing.ddp.draw import drawn
from harness.fuzzing.ddp.hunted import DdpPrograms
from harness.fuzzing.hunted import Place, Rejected
from harness.fuzzing.signature import Signature, of_exception
from suites.c10d.base import gloo_only
from suites.c10d.ddp_base import DdpTestCase

#: Programs of a test, which take some hundredths of a second each.
EXAMPLES = 12


@gloo_only
class DdpProgramsTest(DdpTestCase):
    """Programs on two ranks, one after the other in one process group."""

    def test_programs(self):
        """Gradients, parameters and buffers after each step are the reference's."""
        count = wanted(EXAMPLES)
        asked = environment.settings().examples is not None
        first = [random.SystemRandom().getrandbits(48) if asked else 0]
        dist.broadcast_object_list(first)
        seeds = random.Random(first[0])
        rejected = 0
        for _ in range(count):
            rejected += self.is_rejected(drawn(seeds.getrandbits(48), self.world_size))
        self.assertLess(rejected, count / 2)

    def is_rejected(self, program):
        """Run a program; AssertionError where it fails, with its script."""
        fuzzer = DdpPrograms()
        try:
            fuzzer.run(program, Place(self.rank, self.world_size, dist.distributed_c10d._get_default_store()))
        except Rejected:
            return True
        except Exception as error:
            signature = Signature(fuzzer.name, of_exception(error), fuzzer.structure(program))
            raise AssertionError(f"not in the book: {signature}\n{fuzzer.script(program)}") from error
        return False


if __name__ == "__main__":
    run_tests()
