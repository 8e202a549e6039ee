"""Tests what is said of mistakes in how a test with ranks is written."""

from __future__ import annotations

import unittest
from typing import Any

import torch.distributed as dist

import harness
from harness.cases import rank_function
from harness.cases.usual_mistakes import hints
from harness.outcomes import ErrorInfo, RankOutcome, Status, TestOutcome

NO_RANK = (
    "Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, but"
)


class Sums:
    """Stands for a case with a method that nobody parametrizes."""

    _testMethodName = "test_sum"

    def test_sum(self, op: str, *, root: int) -> None:
        """Is never called with its arguments."""


def python_says(*args: str) -> str:
    """What Python itself says of the call with these arguments."""
    try:
        Sums().test_sum(*args)  # type: ignore[call-arg]  # the missing ones are what it is about
    except TypeError as error:
        return str(error)
    raise AssertionError("nothing is missing")


def torch_says() -> str:
    """What torch itself says where there is no default group."""
    try:
        dist.barrier()
    except ValueError as error:
        return str(error)
    raise AssertionError("this process has a default group")


def found(case: Any, type_name: str, message: str) -> str:
    """The hint about a test that two ranks did not pass for an error, of which there is one at most."""
    error = ErrorInfo(type_name, message, "trace")
    ranks = tuple(RankOutcome(rank, Status.ERROR, error=error) for rank in range(2))
    (hint,) = hints(case, TestOutcome(Status.ERROR, ranks)) or ("",)
    return hint


class HintsTest(unittest.TestCase):
    """A hint for each mistake, and for nothing else."""

    def test_arguments(self) -> None:
        """Of the test's own method, and of no other call."""
        table = {
            ("TypeError", python_says()): "nobody gives 'op' a value: ",
            ("TypeError", python_says("SUM")): "nobody gives 'root' a value: ",
            ("TypeError", "Sums.helper() missing 1 required positional argument: 'op'"): "",
            ("TypeError", "unsupported operand"): "",
            ("RuntimeError", python_says()): "",
        }
        for (type_name, message), said in table.items():
            with self.subTest(message, type_name=type_name):
                hint = found(Sums(), type_name, message)
                self.assertEqual(hint.startswith(said), True, hint)
                self.assertEqual(bool(hint), bool(said), hint)

    def test_groups(self) -> None:
        """Where there is none, what makes one in this kind of case."""
        table: dict[type[unittest.TestCase], str] = {
            harness.DistributedTestBase: 'self.create_pg("cpu")',
            harness.DTensorTestBase: "@with_comms above",
            harness.MultiProcessTestCase: "store=dist.FileStore(self.file_name, self.world_size)",
            rank_function.RankFunction: "rank_context.init_process_group()",
        }
        for kind, said in table.items():
            for message in (torch_says(), NO_RANK):
                with self.subTest(kind=kind, message=message):
                    self.assertIn(said, found(kind.__new__(kind), "ValueError", message))
        self.assertEqual(found(object(), "ValueError", "another"), "")
        self.assertEqual(found(object(), "RuntimeError", NO_RANK), "")


if __name__ == "__main__":
    unittest.main()
