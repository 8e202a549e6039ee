"""Tests tools/fuzz_communication.py on a few dozen programs, and that it notices a checker that is wrong."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import torch.distributed  # noqa: F401 - the ranks of this process's server have it then

from harness.communication.analysis.difference_text import Explanation
from harness.outcomes import TestOutcome
from tools import fuzz_communication
from tools.communication_fuzzing.case import FuzzCase, drawn
from tools.communication_fuzzing.judge import Judgement, judged
from tools.communication_fuzzing.player import play
from tools.fuzz_communication import Result

# Seeds of which a program each is played, as it is and mutated; their programs are for 2, 3 and 4 ranks.
SEEDS = range(600, 612)
# Limits longer than the tool's own, for a machine that runs other tests as well.
PATIENCE = 3.0
# A mutated program that deadlocks, for two ranks: rank 1 drops an all_reduce.
DEADLOCK = "3/1"


def case_of(name: str, *, mutate: bool = True) -> FuzzCase:
    """The case of a name."""
    seed = int(name.partition("/")[0])
    return next(case for case in drawn(seed, mutate=mutate) if case.name == name)


def judgement(case: FuzzCase) -> Judgement:
    """Plays a case, and says what is thought of it."""
    ((_, came),) = play([case], PATIENCE)
    return judged(case, came)


class SampleTest(unittest.TestCase):
    """The tool on the checker as it is."""

    def check(self, cases: list[FuzzCase]) -> list[Judgement]:
        """Plays cases and expects that nothing is wrong."""
        found = [(case, came, judged(case, came)) for case, came in play(cases, PATIENCE)]
        wrong = [f"{case.name}: {case}: {came}" for case, came, thought in found if not thought.good]
        self.assertEqual(wrong, [])
        return [thought for _, _, thought in found]

    def test_right(self) -> None:
        """Of right programs nothing is said."""
        cases = [case for seed in SEEDS for case in [*drawn(seed, mutate=False)][-3:]]
        self.assertEqual({*self.check(cases)}, {Judgement.RIGHT})

    def test_mutated(self) -> None:
        """Mutated programs are proven or reported, and blamed on the rank."""
        cases = [[*drawn(seed, mutate=True)][-1] for seed in SEEDS]
        self.assertLessEqual({Judgement.PROVEN, Judgement.REPORTED}, {*self.check(cases)})


class PlantedTest(unittest.TestCase):
    """The tool on a checker that is wrong."""

    def test_wrong_blame(self) -> None:
        """A cause that names the other rank is noticed, and so is one that names none."""
        case = case_of(DEADLOCK)
        self.assertIs(judgement(case), Judgement.PROVEN)
        for text in ("rank 0 left the test", "nobody knows"):
            with mock.patch(
                "harness.rank_merging.explain", lambda _, text=text, **how: Explanation(text, (0,))
            ):
                self.assertIs(judgement(case), Judgement.WRONG_BLAME)

    def test_a_word_too_many(self) -> None:
        """Something that is said of a right program is noticed."""

        def say(outcome: TestOutcome, level: str | None) -> TestOutcome:
            return TestOutcome(outcome.status, outcome.ranks, communication=("rank 0 is odd",))

        case = case_of(DEADLOCK, mutate=False)
        self.assertIs(judgement(case), Judgement.RIGHT)
        with mock.patch(f"{_says()}.with_communication", say):
            self.assertIs(judgement(case), Judgement.FALSE_WORD)


def _says() -> str:
    """The module that asks what is wrong with a test's communication."""
    return "harness.cases.multiprocess"


class CommandTest(unittest.TestCase):
    """The command, without ranks."""

    def run_tool(self, *arguments: str, results: Callable[[int, str, int], list[Result]]) -> tuple[int, str]:
        """Runs the tool with these results of a batch; returns the exit code and what it prints."""
        printed = io.StringIO()

        def run(seed: int, count: int, kinds: list[str], jobs: int) -> list[Result]:
            return [each for kind in kinds for each in results(seed, kind, count)]

        with mock.patch.object(fuzz_communication, "run", run), contextlib.redirect_stdout(printed):
            return fuzz_communication.main(arguments), printed.getvalue()

    def test_misses_are_scripts(self) -> None:
        """What is wrong is written as a script that runs, and decides the exit code."""
        case = case_of(DEADLOCK)
        ((_, came),) = play([case], PATIENCE)

        def missed(seed: int, kind: str, count: int) -> list[Result]:
            return [Result(case, came, Judgement.MISSED, Judgement.MISSED)]

        with tempfile.TemporaryDirectory() as directory:
            code, printed = self.run_tool(
                "--only", "mutated", "--seed", "3", "--out", directory, results=missed
            )
            self.assertEqual(code, 1)
            self.assertIn("MISSED --replay 3/1 --only mutated: drop, hangs", printed)
            (script,) = Path(directory).iterdir()
            text = script.read_text(encoding="utf-8")
        self.assertIn("# rank 1 drops step 0, CollectiveStep(kind='all_reduce', group=(0, 1))", text)
        compile(text, script.name, "exec")

    def test_wrong_once(self) -> None:
        """What is right when it is run by itself does not count."""
        case = case_of(DEADLOCK)
        ((_, came),) = play([case], PATIENCE)

        def once(seed: int, kind: str, count: int) -> list[Result]:
            return [Result(case, came, Judgement.MISSED, Judgement.PROVEN)]

        code, printed = self.run_tool("--only", "mutated", "--seed", "3", results=once)
        self.assertEqual(code, 0)
        self.assertIn("1 of 1 programs with a fault: proven or reported", printed)
        self.assertIn("1 cases, 0 wrong, 1 wrong once", printed)

    def test_by_its_path(self) -> None:
        """The tool starts by its path, without the tree on sys.path."""
        tool = Path(fuzz_communication.__file__)
        done = subprocess.run([sys.executable, str(tool), "--cases", "0"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("0 is less than 1", done.stderr)


if __name__ == "__main__":
    unittest.main()
