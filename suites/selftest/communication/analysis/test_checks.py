"""Tests what is found wrong with calls of ranks that may all have passed."""

from __future__ import annotations

import random
import unittest
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

from harness.communication.analysis.checks import MOST_OF_A_KIND, Check, findings
from harness.communication.call_log import ENTRIES
from harness.communication_call import Call, Kind
from suites.selftest.communication.samples import asks, call, joins, logged, making, receive, send


def ended(*args: Any, **fields: Any) -> Call:
    """A call that has ended."""
    return call(*args, state="ended", **fields)


class FindingsTest(unittest.TestCase):
    """What ``findings`` finds in calls."""

    def checks(self, *calls: Sequence[Call]) -> list[Check]:
        """The kinds of what is found."""
        return [found.check for found in findings(dict(enumerate(calls)))]

    def test_table(self) -> None:
        """Each kind of finding, and what is none."""
        unwaited: dict[str, Any] = {"state": "begun", "own_work": True}
        told = call("written", kind=Kind.FINDING, key="a tensor of ...")
        table: dict[str, tuple[list[list[Call]], list[Check]]] = {
            "nothing": ([[ended()], [ended()]], []),
            "no calls": ([[], []], []),
            "reduce operations": ([[ended(reduce_op="SUM")], [ended(reduce_op="MAX")]], [Check.ARGUMENTS]),
            "the test has seen it": ([[ended(root=0)], [ended(root=1, raised=True)]], []),
            "sizes of a message": ([[send(1, agreed="1")], [receive(0, agreed="2")]], [Check.ARGUMENTS]),
            "not waited for": ([[call(**unwaited)], [ended()]], [Check.UNWAITED]),
            "not waited for by torch": ([[call(**unwaited, by_library=True)], [ended()]], []),
            "lost": ([[send(1, state="ended")], []], [Check.LOST]),
            "received": ([[send(1, state="ended")], [receive(0, state="ended")]], []),
            "received from any": ([[send(1, state="ended")], [receive(None, state="ended")]], []),
            "a message that was refused": ([[send(1, refused=True, raised=True)], []], []),
            "race": (
                [[receive(None), receive(None)], [send(0, at=-1.0)], [send(0, at=-1.0)]],
                [Check.RACE],
            ),
            "race with a message that came later, and did not depend on the first": (
                [
                    [receive(None, state="ended"), receive(None, state="ended", at=3.0)],
                    *([send(0, at=-1.0)], [send(0, at=2.0)]),
                ],
                [Check.RACE],
            ),
            "a message that may be an answer to what followed on the receive": (
                [
                    [receive(None, state="ended"), send(2, at=1.0), receive(None, state="ended", at=3.0)],
                    *([send(0, at=-1.0)], [receive(0, at=1.0), send(0, at=2.0)]),
                ],
                [],
            ),
            "not called by all": (
                [[ended(members=(0, 1)), ended("broadcast", 2, members=(0, 1))], [ended(members=(0, 1))]],
                [Check.INCOMPLETE],
            ),
            "told of once in a group": (
                [[ended(number=n, members=(0, 1)) for n in (1, 2, 3)], [ended(members=(0, 1))]],
                [Check.INCOMPLETE],
            ),
            "a group made by its members alone": (
                [
                    [ended(members=(0, 1)), making(1, (0,), state="ended")],
                    [ended(members=(0, 1))],
                ],
                [Check.INCOMPLETE],
            ),
            "a group that its members alone have to make": (
                [
                    [ended(members=(0, 1)), making(1, (0,), state="ended", group="0a1b:2")],
                    [ended(members=(0, 1))],
                ],
                [],
            ),
            "a group made outside of any default group": (
                [[making(1, (0,), state="ended")], [ended(members=(1,), group="2")]],
                [],
            ),
            "a rank of another program": ([[ended(members=(0, 7))], [ended(members=(0, 7))]], []),
            "a rank that recorded nothing": ([[ended(members=(0, 1))], []], []),
            "the test has seen that one did not come": (
                [
                    [ended(members=(0, 1)), ended(number=2, members=(0, 1), raised=True)],
                    [ended(members=(0, 1))],
                ],
                [],
            ),
            "made in C++": (
                [[ended(members=(0, 1), unseen=True)], [ended(group="1", members=(1,))]],
                [Check.INCOMPLETE],
            ),
            "made in C++, where a backward pass raised": (
                [
                    [call("backward", kind=Kind.IN_CPP, raised=True), ended(members=(0, 1), unseen=True)],
                    [ended(group="1", members=(1,))],
                ],
                [],
            ),
            "a message that raised": (
                [[send(1, state="ended", raised=True), send(1, state="ended")], [receive(0, state="ended")]],
                [],
            ),
            "a group that one destroys": (
                [
                    [ended(members=(0, 1)), ended("destroy_process_group", kind=Kind.ENDING, members=(0, 1))],
                    [ended(members=(0, 1))],
                ],
                [],
            ),
            "refused": (
                [
                    [ended(members=(0, 1)), ended(number=2, members=(0, 1), raised=True, refused=True)],
                    [ended(members=(0, 1))],
                ],
                [],
            ),
            "a backend that moves nothing": (
                [[ended(members=(0, 1), backend="fake")], [ended(group="1", members=(1,))]],
                [],
            ),
            "told by the rank": ([[told], []], [Check.WRITTEN]),
        }
        for name, (calls, expected) in table.items():
            with self.subTest(name):
                self.assertEqual(self.checks(*calls), expected)

    def test_logs(self) -> None:
        """Of logs, which may be seen to be alike without a look at their calls, the same is found."""
        draw = random.Random(7)
        both: dict[str, Any] = {"members": (0, 1)}
        told = call("overlap", kind=Kind.FINDING, key="two calls")
        drawn = (
            *(ended(**both), ended("barrier", **both), ended(members=(0,), group="1"), ended(members=(0, 2))),
            *(ended("all_to_all", sent=(1, 1), received=(2, 2), **both), ended(raised=True, **both)),
            *(send(1, state="ended", **both), receive(0, state="ended", **both), making(1, (0, 1))),
            *(call(state="begun", own_work=True, **both), told),
        )
        sets_key = call("store.set", kind=Kind.SETTING, key="k")
        some_wrong = 0
        for _ in range(1000):
            same = [replace(draw.choice(drawn), sequence=n) for n in range(1, draw.randrange(2, 4))]
            calls = {0: same, 1: list(same)}
            if draw.random() < 0.5:
                at = draw.randrange(len(same))
                calls[1][at] = replace(draw.choice((same[at], *drawn)), sequence=draw.choice((at + 1, 9)))
            if draw.random() < 0.5:
                calls[0].insert(draw.randrange(len(same)), sets_key)
            found = findings({rank: logged(calls[rank]) for rank in calls})
            self.assertEqual(found, findings(calls))
            some_wrong += bool(found)
        self.assertGreater(some_wrong, 200)

    def test_keys_of_one_rank(self) -> None:
        """Where one rank alone uses stores or asks workers, and all else is alike, that is seen at once."""
        both = ended(members=(0, 1))
        keys = [call(f"store.{kind.value}", kind=kind, key="k") for kind in (Kind.SETTING, Kind.STORE)]
        keys += [asks("w1"), joins("w0")]
        with mock.patch("harness.communication.analysis.checks.differences_of") as compared:
            self.assertEqual(findings({0: logged([*keys, both]), 1: logged([both])}), ())
            compared.assert_not_called()
            findings({0: logged([both]), 1: logged([ended(members=(0, 2))])})
            compared.assert_called_once()

    def test_alike(self) -> None:
        """What several ranks did not wait for is one line."""
        (found,) = findings({r: [call(state="begun", own_work=True)] for r in range(3)})
        self.assertEqual(found.ranks, (0, 1, 2))
        self.assertIn("on ranks 0-2", found.text)

    def test_most(self) -> None:
        """A loop does not fill a page."""
        calls = {r: [ended(number=n, reduce_op=str(r)) for n in range(1, 50)] for r in range(2)}
        self.assertEqual(len(findings(calls)), MOST_OF_A_KIND)

    def test_lost_calls(self) -> None:
        """Where the log has dropped calls, nothing is said that needs them all."""
        many = [send(1, state="ended")] * ENTRIES
        self.assertEqual(self.checks(many, []), [])


if __name__ == "__main__":
    unittest.main()
