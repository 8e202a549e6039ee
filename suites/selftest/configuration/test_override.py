"""Tests what a configuration file may say of tests, and which of several overrides holds."""

from __future__ import annotations

import datetime
import unittest
from typing import Any

from harness.configuration.override import Override, Quarantine, Reruns, Rule, read, rule_of
from harness.errors import UsageError

DAY = datetime.date(2030, 1, 2)


def parsed(**table: Any) -> Override:
    """Returns the override in a table, in a file with one group."""
    return read(table, ["ports"], lambda *path: ":".join(["f", *map(str, path)]))


class ReadTest(unittest.TestCase):
    """A table of the file."""

    def test_all_parts(self) -> None:
        """Each key is a part of the rule."""
        table = {
            "tests": ["a.*", "b"],
            "timeout": 3,
            "reruns": {"count": 2, "delay": 0.5, "backoff": "exponential", "max-delay": 4},
            "slots": 2,
            "exclusive": False,
            "ranks": "pooled",
            "environment": {"A": "1"},
            "group": "ports",
            "quarantine": {"until": DAY, "reason": "it  is\n flaky"},
        }
        found = parsed(**table)
        quarantine = Quarantine(DAY, "it is flaky", "f:quarantine")
        reruns = Reruns(2, 0.5, "exponential", 4.0)
        rule = Rule(3.0, reruns, 2, False, "pooled", {"A": "1"}, "ports", quarantine)
        self.assertEqual(found, Override(("a.*", "b"), rule, "f"))
        self.assertEqual(parsed(tests="a", reruns=1).rule.reruns, Reruns(1))

    def test_refused(self) -> None:
        """What cannot be used is one line that begins with its place and says what to write."""
        date = {"until": DAY}
        for table, said in (
            ({}, "f: an override needs tests"),
            ({"tests": "a"}, "f: this override says nothing of its tests"),
            ({"tests": [], "slots": 1}, "f:tests: tests = []: write a shell pattern"),
            ({"tests": "a", "timout": 1}, "f:timout: unknown key timout; did you mean timeout?"),
            ({"tests": "a", "timeout": 0}, "f:timeout: timeout = 0: write a number of seconds above 0"),
            ({"tests": "a", "timeout": "1"}, "write a number of seconds"),
            ({"tests": "a", "slots": 0}, "write a whole number from 1"),
            ({"tests": "a", "slots": True}, "write a whole number"),
            ({"tests": "a", "reruns": -1}, "write a whole number from 0"),
            ({"tests": "a", "reruns": {"delay": 1}}, "f:reruns: reruns needs its count"),
            ({"tests": "a", "reruns": {"count": 1, "backoff": "x"}}, 'write "fixed" or "exponential"'),
            ({"tests": "a", "reruns": {"count": 1, "delay": -1}}, "write a number of seconds"),
            ({"tests": "a", "reruns": {"count": 1, "dely": 1}}, "did you mean delay?"),
            ({"tests": "a", "exclusive": 1}, "write true or false"),
            ({"tests": "a", "ranks": "many"}, "write one of fresh, pooled, threads, local"),
            ({"tests": "a", "environment": {"A": 1}}, "write a table of texts"),
            ({"tests": "a", "environment": {"HARNESS_SEED": "1"}}, "write its key in place of it"),
            ({"tests": "a", "environment": {"A=B": "1"}}, "is no environment variable"),
            ({"tests": "a", "group": "port"}, "there is no [groups.port]; did you mean ports?"),
            ({"tests": "a", "quarantine": True}, "write { until = "),
            ({"tests": "a", "quarantine": {"reason": "r"}}, "a quarantine ends: until = "),
            ({"tests": "a", "quarantine": {"until": "soon", "reason": "r"}}, "a date"),
            ({"tests": "a", "quarantine": {**date, "reason": " "}}, "a quarantine has a reason"),
            ({"tests": "a", "quarantine": {**date, "reson": "r"}}, "did you mean reason?"),
        ):
            with self.subTest(table), self.assertRaises(UsageError) as raised:
                parsed(**table)
            self.assertIn(said, str(raised.exception))
            self.assertNotIn("\n", str(raised.exception))


class RuleTest(unittest.TestCase):
    """What holds for a test."""

    def test_first_wins(self) -> None:
        """Each part is from the first override that has it; variables come together."""
        first = parsed(tests="a", exclusive=False, environment={"A": "1", "B": "1"})
        second = parsed(tests="a", exclusive=True, slots=3, environment={"B": "2", "C": "2"})
        rule = rule_of([first, second])
        self.assertEqual((rule.exclusive, rule.slots), (False, 3))
        self.assertEqual(rule.environment, {"A": "1", "B": "1", "C": "2"})
        self.assertEqual(rule_of([]), Rule())

    def test_quarantine_ends(self) -> None:
        """The last day counts."""
        quarantine = Quarantine(DAY, "r")
        for days, holds in ((-1, True), (0, True), (1, False)):
            with self.subTest(days):
                self.assertIs(quarantine.holds(DAY + datetime.timedelta(days)), holds)

    def test_waits(self) -> None:
        """A fixed wait stays; an exponential one doubles up to its limit."""
        for reruns, waits in (
            (Reruns(9), [0, 0, 0, 0]),
            (Reruns(9, 2.0), [2, 2, 2, 2]),
            (Reruns(9, 1.0, "exponential", 3.0), [1, 2, 3, 3]),
        ):
            with self.subTest(reruns):
                self.assertEqual([reruns.wait_s(attempt) for attempt in (1, 2, 3, 4000)], waits)


if __name__ == "__main__":
    unittest.main()
