"""``RandomProgramsCase``: what a fuzzer draws runs rightly, or fails in a way that is in the book."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from harness import TestCase
from harness.fuzzing.hunted import Hunted, Rejected
from harness.fuzzing.player import played, quiet_environment, smallest
from harness.fuzzing.signature import Failure
from harness.hypothesis_examples import seed_of_examples, wanted
from suites.bugs.book import known


class RandomProgramsCase(TestCase):
    """Plays programs on ranks, which are replaced after one that fails."""

    def check_programs(self, fuzzer: Hunted[Any], drawn: Callable[[int], Any], examples: int) -> None:
        """Fail for a program that fails and is not in the book, and where as many are rejected as are played.

        ``drawn`` gives the program of a seed. There are ``examples`` programs, always the same; with
        ``HARNESS_EXAMPLES`` so many, those of the run's seed.
        """
        count, rejected = wanted(examples), 0
        seeds = random.Random(seed_of_examples(0))
        with quiet_environment():
            for _ in range(count):
                seed = seeds.getrandbits(48)
                program = drawn(seed)
                try:
                    failure = played(fuzzer, program)
                except Rejected:
                    rejected += 1
                    continue
                if failure is not None and not known(str(fuzzer.signature(program, failure))):
                    self._check_smallest(fuzzer, program, failure, seed)
        self.assertLess(rejected, count / 2)

    def _check_smallest(self, fuzzer: Hunted[Any], program: Any, failure: Failure, seed: int) -> None:
        """Fail unless the smallest program that fails in this way is in the book."""
        small = smallest(fuzzer, program, failure)
        signature = str(fuzzer.signature(small, failure))
        drawn = f"shrunk from that of seed {seed}: {fuzzer.signature(program, failure)}"
        self.assertIsNotNone(
            known(signature), f"not in the book: {signature}\n{drawn}\n{fuzzer.script(small)}"
        )
