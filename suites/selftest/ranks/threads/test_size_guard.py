"""Tests that a call for which gloo would end the process of all ranks is refused: tables of calls."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from typing import Any

from harness.communication_call import Call
from harness.ranks.threads.collective_matcher import MismatchError
from harness.ranks.threads.size_guard import SizeGuard
from suites.selftest.cases.dtensor_bodies import play, said
from suites.selftest.communication.samples import call, receive, send
from suites.selftest.faults import threaded_collectives

PAIR = (0, 1)


def of(elements: int, operation: str = "all_reduce", **fields: Any) -> Call:
    """A collective with so many elements of four bytes."""
    return call(operation, members=PAIR, nbytes=4 * elements, agreed=str(elements), **fields)


class SizeGuardTest(unittest.TestCase):
    """What ``SizeGuard`` refuses."""

    def refused(self, *calls: tuple[int, Call]) -> list[int]:
        """The ranks whose calls are refused, of calls in this order."""
        guard, found = SizeGuard(), []
        for rank, each in calls:
            try:
                guard.check(rank, each)
            except MismatchError:
                found.append(rank)
        return found

    def test_collectives(self) -> None:
        """Which of two ranks is refused, by the calls of both."""
        table: dict[str, tuple[Sequence[Call], list[int]]] = {
            "alike": ((of(2), of(2)), []),
            "other sizes": ((of(2), of(3)), [1]),
            "other collectives": ((of(2), of(3, "broadcast")), [1]),
            "other collectives of one size": ((of(2), of(2, "broadcast")), []),
            "a barrier, which has no tensor": ((of(2), of(0, "barrier")), []),
            "other dtypes of one size": ((of(2), call(members=PAIR, nbytes=8, agreed="2 x int32")), []),
            "other calls of a group": ((of(2), of(3, number=2)), []),
            "another backend": ((of(2, backend="threaded"), of(3, backend="threaded")), []),
            "other splits": (
                (
                    call("all_to_all_single", members=PAIR, sent=(1, 2), received=(1, 1), nbytes=8),
                    call("all_to_all_single", members=PAIR, sent=(1, 1), received=(1, 1), nbytes=8),
                ),
                [1],
            ),
        }
        for name, ((first, second), expected) in table.items():
            with self.subTest(name):
                self.assertEqual(self.refused((0, first), (1, second)), expected)

    def test_messages(self) -> None:
        """A message that is longer than its receiver expects, whoever comes first, in their order."""
        sends = [send(1, nbytes=n, members=PAIR) for n in (8, 4)]
        receives = [receive(0, nbytes=n, members=PAIR) for n in (4, 8)]
        self.assertEqual(self.refused((0, sends[0]), (1, receives[0])), [1])
        self.assertEqual(self.refused((1, receives[0]), (0, sends[0])), [0])
        self.assertEqual(self.refused((0, sends[1]), (1, receives[1])), [])
        self.assertEqual(self.refused((0, sends[1]), (0, sends[0]), *((1, each) for each in receives)), [])
        from_any = receive(None, nbytes=4, members=PAIR)
        self.assertEqual(self.refused((1, from_any), (0, sends[1]), (0, sends[0]), (1, receives[0])), [])


class OnGlooTest(unittest.TestCase):
    """Ranks on gloo, in this process, which gloo would end."""

    def test_told(self) -> None:
        """The test fails, and its cause is what the ranks did differently."""
        table = {
            "test_reduces": r"cause: rank 0 reduces \(2,\) float32 in all_reduce #1 .* rank 1 \(3,\) float32",
            "test_reduces_functionally": r"cause: rank 0 reduces \(2,\) .* rank 1 \(3,\) float32",
            "test_sends": r"cause: rank 1 sends \(3,\) float32 .* rank 0 receives \(2,\) float32 from it",
        }
        for method, text in table.items():
            with self.subTest(method):
                result, _ = play(threaded_collectives.FaultsOnGloo, method)
                self.assertRegex(said(result), text)


if __name__ == "__main__":
    unittest.main()
