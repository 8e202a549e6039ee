"""Tests tools/fuzz_verdicts.py on a few cases of each kind of ranks, and that it notices a wrong verdict."""

from __future__ import annotations

import contextlib
import io
import os
import unittest
from collections.abc import Sequence
from unittest import mock

import torch.distributed  # noqa: F401 - the ranks of this process's server have it then

from harness.outcomes import Status, TestOutcome
from suites.selftest.forked_case import ForkedCase
from suites.selftest.tools.planted import fuzzed
from tools import fuzz_verdicts
from tools.fuzz_verdicts import Judged
from tools.verdict_fuzzing.batch import Batch
from tools.verdict_fuzzing.case import draw
from tools.verdict_fuzzing.driver import observed
from tools.verdict_fuzzing.leftovers import MARK
from tools.verdict_fuzzing.observation import Observation
from tools.verdict_fuzzing.oracle import expected, objections
from tools.verdict_fuzzing.subject import name_of

# Seeds of cases that are quick: on fresh ranks an assertion, a signal, an exit, a skip, a hang and a process
# left behind; on pooled ranks an exception, a signal and a thread; on threads an assertion, a hang, a skip
# and a BaseException; on ranks that somebody else started an exception and ``sys.exit``.
SAMPLE = (1810, 1914, 208, 353, 825, 47, 1218, 534, 271, 9379, 528, 7543, 660, 1204, 277)
# Limits twice as long as the tool's own, for a machine that runs other tests as well.
PATIENCE = 2.0


class SampleTest(ForkedCase):
    """The tool on the harness as it is."""

    def test_right(self) -> None:
        """None of the cases is wrong, and every mode is among them."""
        cases = [draw(seed) for seed in SAMPLE]
        results = list(fuzz_verdicts.run(cases, 2, PATIENCE, ()))
        self.assertEqual({result.first.case.seed for result in results}, set(SAMPLE))
        self.assertEqual(
            {result.first.case.mode for result in results}, {"fresh", "pooled", "threads", "external"}
        )
        wrong = [f"{r.first.case}: {r.again}" for r in results if r.wrong]
        self.assertEqual(wrong, [])


class PlantedTest(unittest.TestCase):
    """The tool on a harness whose merge is wrong."""

    def test_noticed(self) -> None:
        """A merge that calls everything a pass is noticed, where the right verdict is a skip or a failure."""
        for seed in fuzzed.SEEDS:
            case = draw(seed)
            with self.subTest(str(case)), mock.patch.dict(os.environ, {MARK: "planted"}):
                self.assertEqual(objections(case, expected(case), self.observed(seed)), [])
                with mock.patch("harness.cases.multiprocess.merge", lambda *_: TestOutcome(Status.PASSED)):
                    seen = objections(case, expected(case), self.observed(seed))
                self.assertEqual(seen, ["the verdict is pass"])

    @staticmethod
    def observed(seed: int) -> Observation:
        """What comes of a case in this process."""
        return observed(draw(seed), getattr(fuzzed, name_of(seed)))


class ReportTest(unittest.TestCase):
    """What the tool prints, and its exit codes."""

    def run_tool(self, verdicts: Sequence[str], *arguments: str) -> tuple[int, str]:
        """The tool with cases of which these verdicts come in turn."""
        left = list(verdicts)

        def judged(batch: Batch) -> list[Judged]:
            case = batch.cases[0]
            wanted = expected(case, batch.patience)
            came = Observation(left.pop(0), "what it says", "pass", "pass", seconds=0.5)
            return [Judged(case, wanted, came, tuple(objections(case, wanted, came)))]

        out = io.StringIO()
        with (
            mock.patch("tools.fuzz_verdicts.judged_of", lambda batch: iter(judged(batch))),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
        ):
            code = fuzz_verdicts.main(["--cases", "1", *arguments])
        return code, out.getvalue()

    def test_right(self) -> None:
        """Where nothing is wrong, the exit code is 0 and the lateness is told."""
        code, told = self.run_tool(["skip"], "--seed", "353")
        self.assertEqual(code, 0)
        self.assertIn("fresh: 1 cases, late by 0.50 s", told)
        self.assertIn("1 cases: 0 wrong, 0 wrong once", told)

    def test_wrong_twice(self) -> None:
        """A case that is wrong again by itself is told with its seed, and makes the exit code 1."""
        code, told = self.run_tool(["pass", "error"], "--seed", "353")
        self.assertEqual(code, 1)
        for line in ("WRONG: --seed 353 --cases 1", "wanted: skip", "the verdict is error", "| what it says"):
            self.assertIn(line, told)

    def test_wrong_once(self) -> None:
        """A case that is right by itself is told, and does not count."""
        code, told = self.run_tool(["pass", "skip"], "--seed", "353")
        self.assertEqual(code, 0)
        self.assertIn("wrong once: --seed 353 --cases 1", told)

    def test_usage(self) -> None:
        """A word that is not drawn is a usage error, and ``--list`` runs nothing."""
        code, told = self.run_tool([], "--only", "sigsev")
        self.assertEqual(code, 2)
        self.assertIn("there is no 'sigsev' to draw", told)
        code, told = self.run_tool([], "--seed", "353", "--list")
        self.assertEqual(code, 0)
        self.assertIn("353: fresh ranks (forkserver, unittest), world size 2: skip in late on [0, 1]", told)


if __name__ == "__main__":
    unittest.main()
