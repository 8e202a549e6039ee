"""Tests what is thought of verdicts: a table of mutations and of what came of them."""

from __future__ import annotations

import unittest

from harness.fuzzing import CollectiveStep, Message, Program
from harness.fuzzing.mutation import Mutation, MutationKind
from harness.fuzzing.schedule import ALL, SEND
from tools.communication_fuzzing.case import FuzzCase
from tools.communication_fuzzing.judge import Judgement, judged
from tools.communication_fuzzing.player import Observation

EVERYONE = (0, 1, 2)
PROGRAM = Program(
    3,
    (
        CollectiveStep("all_reduce", EVERYONE),
        CollectiveStep("barrier", (0, 1)),
        Message(0, 2, EVERYONE),
        CollectiveStep("broadcast", EVERYONE),
    ),
)
HANGS = Mutation(MutationKind.DROP, 1, 0, ALL)
OF_TWO = Mutation(MutationKind.DROP, 1, 1, ALL)
MESSAGE = Mutation(MutationKind.DROP, 0, 2, SEND)
OPEN = Mutation(MutationKind.DROP, 1, 3, ALL)
RIGHT = Mutation(MutationKind.DROP, 0, 9, ALL)  # changes nothing

EACH_OTHER = "rank {0} waits for rank {1} in all_reduce #1 (t.py:1), and rank {1} for rank {0} in recv"
PASSED = Observation("passed")
TABLE = (
    (None, PASSED, Judgement.RIGHT),
    (None, Observation("passed", told=("rank 0: a tensor",)), Judgement.FALSE_WORD),
    (None, Observation("deadlocked", "rank 1 left the test"), Judgement.FALSE_PROOF),
    (None, Observation("timed out"), Judgement.FALSE_WORD),
    (RIGHT, PASSED, Judgement.RIGHT),
    (HANGS, PASSED, Judgement.MISSED),
    (HANGS, Observation("timed out", "rank 1 timed out"), Judgement.MISSED),
    (HANGS, Observation("deadlocked", "rank 1 left the test; ranks 0, 2 wait"), Judgement.PROVEN),
    (HANGS, Observation("deadlocked", "ranks 0-2 wait for each other"), Judgement.PROVEN),
    (HANGS, Observation("deadlocked", "rank 0 left the test; ranks 1, 2 wait"), Judgement.WRONG_BLAME),
    (HANGS, Observation("deadlocked", "rank 2 waits; rank 1 waits"), Judgement.WRONG_BLAME),
    (HANGS, Observation("error", "rank 1 reduces with MAX, ranks 0, 2 with SUM"), Judgement.REPORTED),
    (
        HANGS,
        Observation("error", "rank 0 calls barrier #1 (t.py:1), rank 1 calls reduce #1"),
        Judgement.REPORTED,
    ),
    (
        HANGS,
        Observation("deadlocked", "ranks call groups in other orders: rank 0 calls a, rank 2 b, rank 1 c"),
        Judgement.PROVEN,
    ),
    (HANGS, Observation("deadlocked", f"{EACH_OTHER.format(2, 1)}; rank 0 waits"), Judgement.PROVEN),
    (HANGS, Observation("deadlocked", f"{EACH_OTHER.format(2, 0)}; rank 1 waits"), Judgement.WRONG_BLAME),
    (OF_TWO, Observation("deadlocked", "rank 0 waits in barrier #1; rank 1 waits"), Judgement.PROVEN),
    (OF_TWO, Observation("deadlocked", "rank 0 waits in barrier #1; rank 2 waits"), Judgement.WRONG_BLAME),
    (MESSAGE, Observation("deadlocked", "rank 2 waits in recv from rank 0"), Judgement.PROVEN),
    (OPEN, PASSED, Judgement.UNSEEN),
    (OPEN, Observation("passed", told=("rank 1: something",)), Judgement.REPORTED),
    (OPEN, Observation("deadlocked", "rank 1 left the test"), Judgement.PROVEN),
)


class JudgedTest(unittest.TestCase):
    """Judgements of the table's verdicts."""

    def test_table(self) -> None:
        """Each verdict is judged as its row says."""
        for mutation, came, expected in TABLE:
            with self.subTest(mutation=mutation, came=came):
                self.assertIs(judged(FuzzCase("1/1", PROGRAM, mutation), came), expected)


if __name__ == "__main__":
    unittest.main()
