"""Tests which calls that overlapped have an order that explains them; by hand, and by trying all orders."""

from __future__ import annotations

import itertools
import random
import unittest

from harness.fuzzing.stores.linearizability import Event, contradiction, linearizable
from harness.fuzzing.stores.model import TIMEOUT, Cell, call


def by_all_orders(events: list[Event]) -> bool:
    """The definition: an order that keeps apart what did not overlap, and in which the results are right."""
    for order in itertools.permutations(events):
        if any(b.ended < a.began for a, b in itertools.combinations(order, 2)):
            continue
        cell, right = Cell(), True
        for each in order:
            cell, result = call(cell, each.method, each.arguments)
            right = right and result == each.result
        if right:
            return True
    return False


def drawn(choice: random.Random) -> list[Event]:
    """Up to five calls of a key, whose results are those of some order or, at times, wrong."""
    calls = [("set", ("1",)), ("get", ()), ("add", (1,)), ("compare_set", ("1", "2")), ("delete_key", ())]
    events, cell = [], Cell()
    for _ in range(choice.randint(1, 5)):
        method, arguments = choice.choice(calls)
        cell, result = call(cell, method, arguments)
        if choice.random() < 0.2:
            result = call(Cell("1"), method, arguments)[1]
        began = choice.randrange(20)
        events.append(Event(0, began, began + choice.randrange(12), method, arguments, result))
    return events


class LinearizabilityTest(unittest.TestCase):
    def test_by_hand(self) -> None:
        writes = [Event(0, 0, 10, "set", ("1",), None), Event(1, 0, 10, "set", ("2",), None)]
        table = [
            ("either may be last", [*writes, Event(2, 11, 12, "get", (), "1")], True),
            (
                "but not both",
                [*writes, *(Event(2, 11 + n, 12, "get", (), str(n + 1)) for n in range(2))],
                False,
            ),
            ("a value is seen within its write", [writes[0], Event(2, 5, 6, "get", (), "1")], True),
            ("or not", [writes[0], Event(2, 5, 6, "get", (), TIMEOUT)], True),
            ("but after it", [writes[0], Event(2, 11, 12, "get", (), TIMEOUT)], False),
            ("a lost addition", [Event(n, 0, 10, "add", (1,), 1) for n in range(2)], False),
            ("two additions", [Event(n, 0, 10, "add", (1,), 2 - n) for n in range(2)], True),
        ]
        for name, events, expected in table:
            with self.subTest(name):
                self.assertIs(linearizable(events), expected)

    def test_is_what_the_definition_says(self) -> None:
        choice, verdicts = random.Random(4), set()
        for _ in range(300):
            events = drawn(choice)
            verdict = linearizable(events)
            self.assertIs(verdict, by_all_orders(events), events)
            verdicts.add(verdict)
        self.assertEqual(verdicts, {True, False})

    def test_keys_apart(self) -> None:
        """Calls of several keys are calls of each; the key that contradicts is told with its calls alone."""
        events = [
            Event(0, 0, 1, "multi_set", (("a", "b"), ("1", "2")), None),
            Event(1, 2, 3, "multi_get", (("a", "b"),), ["1", "3"]),
            Event(1, 4, 5, "check", (("a",),), True),
            Event(1, 6, 7, "multi_get", (("a", "c"),), TIMEOUT),
        ]
        found = contradiction(events)
        assert found is not None
        self.assertEqual(found[0], "b")
        self.assertEqual([each.method for each in found[1]], ["set", "get"])
        self.assertIsNone(contradiction([events[0], *events[2:]]))


if __name__ == "__main__":
    unittest.main()
