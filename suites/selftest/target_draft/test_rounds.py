"""Tests how tries that kill or hang ranks end, and that the others are tried all the same."""

from __future__ import annotations

import os
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.outcomes import RankOutcome, Status
from harness.target_draft.rounds import Plug, findings, refuse_if_nothing_works, tried
from harness.target_draft.tries import Finding, Try
from suites.selftest.targets import plugins

#: A group of Python that dies in some collectives, waits for ever in one, and is gloo otherwise.
PLUGIN = """
import os, threading
import torch.distributed as dist

class Bad(dist.ProcessGroup):
    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self.gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
    def getBackendName(self): return "bad"
    def setGroupName(self, name): pass
    def setGroupDesc(self, text): pass
    def broadcast(self, tensors, opts): return self.gloo.broadcast(tensors, opts)
    def allreduce(self, tensors, opts):
        if tensors[0].dtype.itemsize == 8: raise TypeError("no 8 bytes")
        return self.gloo.allreduce(tensors, opts)
    def reduce(self, tensors, opts): os._exit(9)
    def scatter(self, outputs, inputs, opts):
        if self.rank() == 0: os.abort()
        return self.gloo.scatter(outputs, inputs, opts)
    def allgather(self, outputs, inputs, opts): threading.Event().wait()

dist.Backend.register_backend("bad", Bad, devices=["cpu"])
"""
#: Seconds that a try may take: on a machine however slow it has begun by then, and one of them is waited for.
LIMIT_S = 20.0


class FindingsTest(unittest.TestCase):
    """``findings``: what the files of two ranks say, by how they ended."""

    def test_table(self) -> None:
        """Of both ranks' ends that which is not right; what has no end has crashed or hung."""
        ok, no = [0, "right", ""], [0, "refused", "no"]
        passed = self.outcome(0, Status.PASSED)
        table: list[tuple[str, list[list[list[Any]]], list[RankOutcome], list[Finding]]] = [
            ("nothing began", [[], []], [], []),
            ("right", [[[0], ok], [[0], ok]], [passed], [Finding("right")]),
            ("one refuses", [[[0], ok], [[0], no]], [passed], [Finding("refused", "no")]),
            ("dies", [[[0], ok], [[0]]], [self.outcome(1, Status.CRASHED, -11)],
             [Finding("crashed", "rank 1: signal 11")]),
            ("dies, and its peer says so", [[[0], no], [[0]]], [self.outcome(1, Status.CRASHED, 3)],
             [Finding("crashed", "rank 1: exit code 3")]),
            ("hangs", [[[0]], [[0]]], [self.outcome(0, Status.CRASHED, 1, "Timeout (0:00:20)!")],
             [Finding("hung")]),
            ("hangs since its peer refuses", [[[0]], [[0], no]], [self.outcome(0, Status.ENDED)],
             [Finding("refused", "no")]),
            ("the second is not reached", [[[0], ok, [1]], [[0], ok]], [self.outcome(0, Status.CRASHED, 3)],
             [Finding("right"), Finding("crashed", "rank 0: exit code 3")]),
        ]  # fmt: skip
        for what, lines, outcomes, expected in table:
            with self.subTest(what):
                self.assertEqual(findings(lines, outcomes), expected)

    def outcome(self, rank: int, status: Status, code: int | None = 0, output: str = "") -> RankOutcome:
        """Returns how a rank ended."""
        return RankOutcome(rank, status, exit_code=code, output=output)


class TriedTest(unittest.TestCase):
    """``tried``, on a backend that does what backends should not."""

    def setUp(self) -> None:
        """Works in a directory with the plugin."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        plugins.write(Path(directory.name), "bad_backend", PLUGIN)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(directory.name)

    def tried(self, tries: Sequence[Try], good: Sequence[Try] = ()) -> dict[str, Finding]:
        """Returns what came of each, by its words."""
        found = tried(tries, Plug("bad", "cpu", "bad_backend"), limit_s=LIMIT_S, good=good)
        return {str(each): finding for each, finding in found.items()}

    def test_crashes_and_hangs(self) -> None:
        """A rank that dies or waits for ever ends its try alone, and those after it are tried."""
        found = self.tried(
            [
                Try("broadcast", "float32"),
                Try("reduce", "float32", "sum"),
                Try("scatter", "float32"),
                Try("all_gather", "float32"),
                Try("all_reduce", "float64", "sum"),
                Try("all_reduce", "float32", "max"),
            ],
            good=[Try("broadcast", "float32")],
        )
        self.assertEqual(
            {words: finding.end for words, finding in found.items()},
            {
                "broadcast float32": "right",
                "reduce SUM float32": "crashed",
                "scatter float32": "crashed",
                "all_gather float32": "hung",
                "all_reduce SUM float64": "refused",
                "all_reduce MAX float32": "right",
            },
        )
        self.assertIn("exit code 9", found["reduce SUM float32"].said)
        self.assertEqual(found["all_reduce SUM float64"].said, "TypeError: no 8 bytes")

    def test_nothing_works(self) -> None:
        """Where the first tries all end alike, and not well, nothing more is tried: one line says why."""
        refused = [Finding("refused", "Duplicate GPU detected")] * 3
        with self.assertRaisesRegex(UsageError, "first 3 tries are refused: Duplicate GPU detected. A"):
            refuse_if_nothing_works(refused, Plug("one_each", "cuda"))
        for ends in (refused[:2], [*refused[:2], Finding("refused", "no gather")], [Finding("right")] * 3):
            refuse_if_nothing_works(ends, Plug("one_each", "cuda"))

    def test_no_group(self) -> None:
        """Where no group can be made, it is one line that says why."""
        for plug, said in (
            (Plug("nonesuch", "cpu"), "(?i)nonesuch"),
            (Plug("bad", "cpu", "not_there"), "the plugin not_there does not import"),
        ):
            with self.subTest(said), self.assertRaisesRegex(UsageError, said) as caught:
                tried([Try("broadcast", "float32")], plug, limit_s=LIMIT_S)
            self.assertEqual(len(str(caught.exception).splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
