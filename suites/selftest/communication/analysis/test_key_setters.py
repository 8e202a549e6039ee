"""Tests who is to set a key: a table of keys that ranks have set, and of one for which rank 0 waits."""

from __future__ import annotations

import unittest

from harness.communication.analysis.key_setters import gone_past, narrowed
from harness.communication.analysis.wait_graph import Waiting
from harness.communication_call import Call
from suites.selftest.communication.samples import call, receive, sets_key, waits_for_key


class NarrowedTest(unittest.TestCase):
    """For whom rank 0 of four waits."""

    def test_table(self) -> None:
        """By the key, and the keys that each rank has set."""
        anybody = (1, 2, 3)
        rows: tuple[tuple[str, str, dict[int, tuple[str, ...]], tuple[int, ...]], ...] = (
            ("ranks set their own", "1/2", {1: ("1/1",), 3: ("1/3",)}, (2,)),
            ("no key of that series", "1/2", {1: ("2/1",)}, anybody),
            ("one sets for another", "1/2", {1: ("1/1", "1/3")}, anybody),
            ("two set the same", "1/2", {1: ("1/1",), 3: ("1/1", "1/3")}, anybody),
            ("its own key", "1/0", {1: ("1/1",)}, anybody),
            ("of no rank", "1/7", {1: ("1/1",)}, anybody),
            ("without a number", "ready", {1: ("1/1",)}, anybody),
            ("several, two unset", "1/1, 1/2, 1/3", {1: ("1/1",)}, (2, 3)),
            ("several, one of nobody", "1/1, 1/2, done", {1: ("1/1",)}, anybody),
        )
        for name, key, keys, expected in rows:
            with self.subTest(name):
                calls = {rank: [sets_key(each) for each in keys.get(rank, ())] for rank in range(4)}
                waiting = {0: Waiting(0, waits_for_key(key), anybody)}
                self.assertEqual(narrowed(calls, waiting)[0].waits_for, expected)

    def test_gone_past(self) -> None:
        """Whose keys rank 0 waits for in vain: those who came to what the others came to with theirs set."""
        early, late = call("barrier", 0, at=-0.5), call("barrier", 2)
        first, third = sets_key("1/1"), sets_key("1/3")
        rows: tuple[tuple[str, list[list[Call]], tuple[int, ...]], ...] = (
            ("one forgot it", [[first, late], [late], [third, late]], (2,)),
            ("it is elsewhere", [[first, late], [], [third, late]], ()),
            ("the others set theirs later", [[early, first], [early], [early, third]], ()),
            ("one of the others did", [[first, late], [early, late], [early, third, late]], (2,)),
            ("one of the others did, and is there", [[early, first], [early], [third, late]], ()),
            ("more forgot it than did not", [[first, late], [late], [late]], ()),
            ("as many forgot it as did not", [[first, late], [late], []], (2,)),
            ("one that set it is not there", [[first, late], [late], [third]], ()),
            ("a key of another series is none", [[first, late], [late], [sets_key("2/3"), late]], ()),
        )
        for name, others, expected in rows:
            with self.subTest(name):
                calls = {0: [waits_for_key("1/1, 1/2, 1/3")], **dict(enumerate(others, 1))}
                each = Waiting(0, calls[0][0], (1, 2, 3))
                self.assertEqual(gone_past(calls, narrowed(calls, {0: each})[0]), expected)

    def test_own_key_of_the_one_that_waits(self) -> None:
        """That rank 0 has set a key of its own changes nothing: it would come later."""
        late = call("barrier", 2)
        calls = {
            0: [sets_key("1/0"), waits_for_key("1/0, 1/1, 1/2, 1/3")],
            **{rank: [sets_key(f"1/{rank}"), late] for rank in (1, 3)},
            2: [late],
        }
        each = narrowed(calls, {0: Waiting(0, calls[0][1], (1, 2, 3))})[0]
        self.assertEqual(gone_past(calls, each), (2,))

    def test_others(self) -> None:
        """Who waits for a message, or for workers, waits for the same as before."""
        calls = {0: [], 1: [sets_key("1/1")], 2: []}
        for each in (receive(None), waits_for_key("1/2", workers=3)):
            waiting = {0: Waiting(0, each, (1, 2))}
            self.assertEqual(narrowed(calls, waiting), waiting)


if __name__ == "__main__":
    unittest.main()
