"""Tests that random programs have the same verdicts on ranks that all do the same as by unittest alone."""

from __future__ import annotations

import json
import tempfile
import unittest
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import hypothesis
from hypothesis import strategies as st

from harness.hypothesis_examples import bounded, wanted
from suites.selftest.cases import unittest_programs
from suites.selftest.cases.unittest_programs import Program, difference, programs
from suites.selftest.ranks.external.jobs import Job

# Processes that an external launcher starts take seconds to start, so they all perform one list of programs.
EXTERNAL = 12


def on_ranks(case: str, examples: int, **environ: str) -> Callable[[unittest.TestCase], None]:
    """A test that draws programs and compares a case's run of each with unittest's alone."""

    @bounded(examples)
    @hypothesis.given(program=programs())
    def test(self: unittest.TestCase, program: Program) -> None:
        """A test tells unittest the same in this rank mode."""
        found = difference(program, case, **environ)
        self.assertEqual(found, "", found)

    return test


class ProgramsTest(unittest.TestCase):
    """Random programs of tests: hooks, sub-tests, cleanups, skips, failures and marks."""

    test_merged = on_ranks("Merged", 60)
    test_on_threads = on_ranks("OnThreads", 30)
    test_decorated = on_ranks("Decorated", 15)
    test_on_fresh_ranks = on_ranks("OnProcesses", 6, HARNESS_RANKS="fresh")
    test_on_pooled_ranks = on_ranks("OnProcesses", 12, HARNESS_RANKS="pooled")
    test_on_kept_ranks = on_ranks("OnKeptRanks", 6)
    test_on_local_tensors = on_ranks("OnLocalTensors", 6)

    def test_on_external_ranks(self) -> None:
        """A test tells unittest the same in each process that an external launcher started."""
        many: list[Program] = []

        @bounded(1)
        @hypothesis.given(st.lists(programs(), min_size=wanted(EXTERNAL), max_size=wanted(EXTERNAL)))
        def draw(drawn: list[Program]) -> None:
            many[:] = drawn

        draw()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        file = Path(directory.name, "programs.json")
        file.write_text(json.dumps([asdict(program) for program in many]))
        job = Job([str(file)], [str(file)], module=unittest_programs.__name__)
        self.addCleanup(job.close)
        for rank in range(2):
            found = job.verdicts(rank)
            self.assertEqual(len(found), len(many), job.printed[rank])
            for verdict, text in found.values():
                self.assertEqual(verdict, "same", text)


if __name__ == "__main__":
    unittest.main()
