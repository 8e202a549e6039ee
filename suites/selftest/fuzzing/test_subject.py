"""Tests that there is a case to play each program on: by its number of ranks, on kept or on fresh ones."""

from __future__ import annotations

import unittest
from unittest import mock

from harness.fuzzing import hunted, subject
from harness.fuzzing.hunted import FUZZERS
from harness.fuzzing.subject import subject_of


class SubjectTest(unittest.TestCase):
    """The case for a program, which ``subject_of`` finds."""

    def test_every_fuzzer(self) -> None:
        """The case has the ranks of the program, and is found by its name where ranks are started."""
        for name in FUZZERS:
            fuzzer = hunted.hunted(name)
            for seed in range(4):
                program = next(iter(fuzzer.drawn(seed)))
                case = type(subject_of(fuzzer, program))
                self.assertEqual(case.world_size, fuzzer.world_size(program))
                self.assertIs(getattr(subject, case.__name__), case)

    def test_rank_modes(self) -> None:
        fuzzer = hunted.hunted("collectives")
        program = next(iter(fuzzer.drawn(0)))
        for pooled, mode in ((True, "pooled"), (False, "fresh")):
            with mock.patch.object(type(fuzzer), "pooled", pooled):
                self.assertEqual(subject_of(fuzzer, program).rank_modes, (mode,))


if __name__ == "__main__":
    unittest.main()
