"""Tests what is said of programs with a known communication bug on ranks that a launcher started.

A job for each program after which its processes do not go on; one job for all others.
"""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable, Sequence

from suites.selftest.communication import external_programs
from suites.selftest.communication.external_programs import PROGRAMS, method_name
from suites.selftest.communication.program_verdicts import check_verdict
from suites.selftest.communication.programs.program import Kind, Program
from suites.selftest.ranks.external.jobs import Job

# Seconds. No test here is to come to it.
DEADLINE = "20"
# No process goes on after these: its ranks wait in C.
STUCK = (Kind.DEADLOCKED, Kind.DEADLOCKED_OR_ERROR)


def start(programs: Sequence[Program]) -> Job:
    """Starts a job whose ranks run programs one after the other, all of one world size."""
    (size,) = {program.world_size for program in programs}
    names = [method_name(program) for program in programs]
    return Job(*[names] * size, module=external_programs.__name__, HARNESS_TIMEOUT=DEADLINE)


@functools.cache
def job_of_the_others() -> Job:
    """Returns the job of all programs after which the processes go on."""
    job = start([program for program in PROGRAMS.values() if program.kind not in STUCK])
    unittest.addModuleCleanup(job.close)
    return job


class ExternalTest(unittest.TestCase):
    """Programs on ranks that torchrun, say, started: every process says the same."""

    def judge(self, program: Program) -> None:
        """Compares the verdict of each process with what is expected."""
        if program.kind in STUCK:
            job = start([program])
            self.addCleanup(job.close)
        else:
            job = job_of_the_others()
        for rank in range(program.world_size):
            with self.subTest(rank=rank):
                found = job.verdicts(rank).get(method_name(program))
                verdict, text = found or ("ERROR", job.printed[rank])  # a stuck process prints its verdict
                warned = text.splitlines() if verdict == "pass" else []
                check_verdict(self, program, verdict, text, warned)


def _test_of(program: Program) -> Callable[[ExternalTest], None]:
    def test(self: ExternalTest) -> None:
        self.judge(program)

    test.__name__ = f"test_{program.name}"
    test.__doc__ = program.body.__doc__
    return test


for _program in PROGRAMS.values():
    setattr(ExternalTest, f"test_{_program.name}", _test_of(_program))


if __name__ == "__main__":
    unittest.main()
