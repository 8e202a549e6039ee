"""Tests that the script of a program runs by itself, and that it fails if a tensor is wrong."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness.fuzzing import (
    CollectiveStep,
    Message,
    Mutation,
    MutationKind,
    Program,
    Regroup,
    Straggler,
    mutated,
    programs,
    source_of,
)
from harness.fuzzing.schedule import ALL, SEND
from harness.hypothesis_examples import bounded
from suites.targets.hostmem_device.library import missing

TREE = str(Path(__file__).resolve().parents[3])
EVERYONE = (0, 1, 2)
#: Something of everything that a script can hold.
PROGRAM = Program(
    3,
    (
        CollectiveStep("broadcast", EVERYONE, dtype="int32", root=1, delay=2, views=True),
        Message(0, 2, (0, 2), dtype="bool", tag=2, send=0, lag=2, views=True),
        Straggler(1),
        CollectiveStep("all_to_all_single", (1, 2), dtype="complex64", shape=(1, 2), uneven=True),
        Regroup((0, 2)),
        CollectiveStep("all_reduce", (0, 2), dtype="int32", op="bxor", takes=0),
        Regroup((0, 2)),
        CollectiveStep("gather", EVERYONE, dtype="bfloat16", shape=(), root=2, delay=0),
        CollectiveStep("reduce_scatter", (0, 1), dtype="float64", op="avg", shape=(1, 3), views=True),
        CollectiveStep("all_gather", (0, 1), shape=(1, 3), views=True, gaps=True),
        CollectiveStep("reduce_scatter_tensor", EVERYONE, dtype="int32", managed=True, delay=1),
        CollectiveStep("all_gather", EVERYONE, dtype="int64", delay=1, missing=1),
        CollectiveStep("all_reduce", (0, 2), views=True, gaps=True, managed=True),
        Message(1, 0, EVERYONE, shape=(70001,)),
        Message(2, 1, EVERYONE, dtype="complex64", objects=True),
        CollectiveStep("barrier", EVERYONE, delay=1),
    ),
)


def run(script: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "script.py")
        file.write_text(script, encoding="utf-8")
        return subprocess.run(
            [sys.executable, str(file)],
            env={**os.environ, "PYTHONPATH": TREE},
            capture_output=True,
            text=True,
            check=False,
        )


class Scripts(unittest.TestCase):
    """The scripts that ``source_of`` writes."""

    def test_runs_and_sees_what_is_wrong(self) -> None:
        script = source_of(PROGRAM)
        done = run(script)
        self.assertEqual(done.returncode, 0, done.stderr)
        right = "expected = {0: [[32, 33]], 1: [[32, 33]], 2: [[32, 33]]}"
        self.assertIn(right, script)
        done = run(script.replace(right, right.replace("33", "34", 1)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("step 0, rank 0: tensor([32, 33]", done.stderr)
        done = run(script.replace("    for each in kept", "    kept[-1][-1] = 0\n    for each in kept", 1))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "AssertionError: rank [012]: around tensors")

    def test_of_a_plugin(self) -> None:
        """The script imports what registers the backend, and fails as the backend is wrong."""
        program = Program(3, (CollectiveStep("all_gather", EVERYONE),))
        for backend, status, said in (
            ("python_gloo", 0, ""),
            ("all_gather_reversed", 1, "AssertionError: step 0, rank"),
        ):
            with self.subTest(backend=backend):
                done = run(source_of(program, backend, plugin="suites.targets.faulty"))
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(said, done.stderr)

    def test_on_an_accelerator(self) -> None:
        """Each rank has a device, on which its tensors are."""
        if missing():
            self.skipTest(f"hostmem has to be compiled, and there is no {' and no '.join(missing())}")
        script = source_of(PROGRAM, "hostmem_gloo", device_type="hostmem", plugin="suites.targets.hostmem")
        placed = "    for tensor, numbers in zip(got"
        script = script.replace(
            placed, f"    assert all(each.get_device() == rank for each in got)\n{placed}", 1
        )
        done = run(script)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_mutated(self) -> None:
        """A mutated rank's calls stand first; a mutation that does no harm runs to its end."""
        program = Program(2, (CollectiveStep("barrier", (0, 1), delay=1), Message(0, 1, (0, 1), send=0)))
        harmless = Mutation(MutationKind.SWAP, 0, 1, SEND, other=(0, ALL))
        script = source_of(program, mutation=harmless)
        self.assertIn("    # rank 0 does the send of step 1, Message(", script)
        self.assertLess(script.index("dist.isend("), script.index("dist.barrier("))
        done = run(script)
        self.assertEqual(done.returncode, 0, done.stderr)

    @bounded(50)
    @given(programs(3), st.integers(0, 1 << 30))
    def test_every_mutation_has_one(self, program: Program, seed: int) -> None:
        """The script of a mutated program is Python, whatever is left of its rank."""
        mutation = mutated(program, random.Random(seed))
        if mutation is not None:
            compile(source_of(program, mutation=mutation), "script", "exec")

    @bounded(50)
    @given(programs(3))
    def test_every_program_has_one(self, program: Program) -> None:
        script = source_of(program)
        compile(script, "script", "exec")
        calls = sum(script.count(f"dist.{name}(") for name in ("send", "isend", "send_object_list"))
        self.assertEqual(calls, sum(isinstance(step, Message) for step in program.steps))


if __name__ == "__main__":
    unittest.main()
