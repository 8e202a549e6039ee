"""Tests which of several differences between ranks' calls is told."""

from __future__ import annotations

import unittest
from dataclasses import replace
from typing import Any

from harness.communication.analysis.call_differences import difference_in, explain_failed_call
from harness.communication.analysis.wait_graph import Waiting
from harness.communication_call import Call, Kind
from suites.selftest.communication.samples import call, receive, send

DONE = call(number=1, state="ended")


def layout(operation: str, **fields: Any) -> Call:
    """Placements that a rank gives on a mesh."""
    return call(operation, kind=Kind.LAYOUT, group="the mesh", state="ended", **fields)


class DifferenceTest(unittest.TestCase):
    """The difference that is told where ranks wait."""

    def test_where_ranks_wait(self) -> None:
        """A difference where a rank waits goes before an earlier one; else the first is told."""
        calls = {
            r: [call(number=1, reduce_op=str(r), state="ended"), call(number=2, reduce_op=str(r))]
            for r in range(2)
        }
        for number, waiting in ((2, {0: Waiting(0, calls[0][1], ())}), (1, {})):
            found = difference_in(calls, waiting)
            assert found is not None
            self.assertIn(f"all_reduce #{number}", found.text)

    def test_alike(self) -> None:
        """Calls that are alike have none."""
        self.assertIsNone(difference_in({r: [DONE] for r in range(2)}, {}))


class FailedCallTest(unittest.TestCase):
    """The line about a call in which a rank failed."""

    def test_the_rank_that_differs(self) -> None:
        """It is the cause, and not the rank that the backend ended for it."""
        sizes = [call(agreed=str(r == 1), tensors=str(r == 1)) for r in range(3)]
        found = explain_failed_call(2, {r: [each] for r, each in enumerate(sizes)})
        assert found is not None
        self.assertEqual(found.ranks, (1,))

    def test_nothing_known_of_the_rank(self) -> None:
        """The log of a rank that another launcher started is lost with it; its peers' calls differ."""
        calls = {r: [call(number=1, agreed=str(r), state="waits")] for r in (0, 2)}
        found = explain_failed_call(1, {**calls, 1: []})
        assert found is not None
        self.assertEqual(found.ranks, (0, 2))

    def test_earlier_differences(self) -> None:
        """A difference in a call that was over long before is not the reason."""
        calls = {r: [call(number=1, reduce_op=str(r), state="ended"), call(number=2)] for r in range(2)}
        self.assertIsNone(explain_failed_call(0, calls))

    def test_a_call_of_which_the_test_has_the_future(self) -> None:
        """It counts as over, but whether it was nobody knows before the test waits for the future."""
        for waiting, told in ((None, True), (1.5, False)):
            calls = {
                r: [
                    replace(
                        call(number=1, agreed=str(r), tensors=str(r), state="ended"),
                        own_work=True,
                        waiting_s=waiting,
                    ),
                    call(number=2),
                ]
                for r in range(2)
            }
            self.assertEqual(explain_failed_call(1, calls) is not None, told)

    def test_a_layout_before(self) -> None:
        """Where the same rank gave another layout before, that is the reason; another one's is not."""
        for odd, told in ((1, "distribute_tensor"), (0, "all_gather")):
            calls = {
                r: [
                    layout("distribute_tensor", tensors=f"({r == odd},)", agreed=f"{r == odd}"),
                    call("all_gather", number=2, agreed=str(r == 1), tensors=str(r == 1)),
                ]
                for r in range(3)
            }
            found = explain_failed_call(2, calls)
            assert found is not None
            self.assertEqual(found.ranks, (1,))
            self.assertIn(f" in {told} #", found.text)
            waiting = {2: Waiting(2, calls[2][1], ())}
            self.assertEqual(difference_in(calls, waiting), found)

    def test_a_part_of_the_last_call(self) -> None:
        """A call of objects is several of the backend's, of which an earlier one may be what differs."""
        calls = {
            r: [
                call("broadcast_object_list", agreed=str(r == 1), tensors=str(r == 1), state="ended"),
                replace(call("broadcast_object_list", agreed="alike", state="ended"), sequence=2),
            ]
            for r in range(3)
        }
        found = explain_failed_call(2, calls)
        assert found is not None
        self.assertEqual(found.ranks, (1,))

    def test_an_earlier_call_under_way(self) -> None:
        """A rank that the backend ends in an asynchronous call may be in another one itself."""
        for state in ("begun", "waits"):
            calls = {
                r: [call(number=1, reduce_op=str(r), state=state, own_work=True), call(number=2)]
                for r in range(2)
            }
            self.assertIsNotNone(explain_failed_call(0, calls), state)

    def test_a_message_under_way(self) -> None:
        """The same of a message of other tensors."""
        calls = {
            0: [send(1, agreed="3 x bool", tensors="(3,) bool", state="begun"), DONE],
            1: [receive(0, agreed="2 x bool", tensors="(2,) bool"), DONE],
        }
        found = explain_failed_call(1, calls)
        assert found is not None
        self.assertIn("rank 0 sends (3,) bool", found.text)
        over = {
            0: [send(1, agreed="3 x bool", state="ended"), DONE],
            1: [receive(0, agreed="2 x bool", state="ended"), DONE],
        }
        self.assertIsNone(explain_failed_call(1, over))

    def test_without_calls(self) -> None:
        """A rank that never communicated did not fail in a call."""
        self.assertIsNone(explain_failed_call(0, {0: [], 1: [call()]}))


if __name__ == "__main__":
    unittest.main()
