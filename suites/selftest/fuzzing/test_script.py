"""Tests the text around a script's calls: it holds what the calls need, and nothing else."""

from __future__ import annotations

import unittest

from harness.fuzzing import CollectiveStep, Program, Regroup, Straggler
from harness.fuzzing.script import cuts, framed

PLAIN = CollectiveStep("broadcast", (0, 1))
VIEW = CollectiveStep("broadcast", (0, 1), views=True)


class Frames(unittest.TestCase):
    """``framed`` and ``cuts``."""

    def test_names_the_backend_and_the_world_size(self) -> None:
        text = framed(Program(2, (PLAIN,)), ["    the_call()"], "nccl", "cuda", "plugged")
        for words in (
            'init_process_group("nccl"',
            "nprocs=2",
            "    the_call()\n    dist.barrier()",
            'torch.set_default_device(f"cuda:{device}")',
            "import plugged  # registers the backend",
        ):
            self.assertIn(words, text)
        compile(text, "script", "exec")

    def test_helpers_only_where_they_are_called(self) -> None:
        for steps, helpers in (
            ((PLAIN, Straggler(0)), set()),
            ((VIEW,), {"cut"}),
            ((Regroup((0, 1)), PLAIN), {"regroup"}),
            ((Regroup((0, 1)), VIEW), {"cut", "regroup"}),
        ):
            with self.subTest(helpers=helpers):
                program = Program(2, steps)
                text = framed(program, [], "gloo", "cpu", "")
                self.assertEqual({name for name in ("cut", "regroup") if f"def {name}(" in text}, helpers)
                self.assertEqual(cuts(program), "cut" in helpers)
                self.assertNotIn("set_device", text)


if __name__ == "__main__":
    unittest.main()
