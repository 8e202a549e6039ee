"""Tests which calls one rank alone made, or left out: tables of ranks' ways through a program."""

from __future__ import annotations

import unittest
from dataclasses import replace

from harness.communication.analysis.difference_text import Explanation
from harness.communication.analysis.odd_steps import odd_step, with_odd_step
from harness.communication.call_log import ENTRIES
from harness.communication_call import Call
from suites.selftest.communication.samples import call

GROUP = call().signature.group_key


def way(steps: str) -> list[Call]:
    """Calls of the default group, a letter each: of one operation, at a line of the letter's own."""
    return [call(number=n, place=f"{letter}.py") for n, letter in enumerate(steps, 1)]


class OddStepTest(unittest.TestCase):
    """``odd_step``: what one rank alone did."""

    def found(self, *steps: str) -> str:
        """What is said of ranks that went these ways."""
        return str(odd_step({rank: way(each) for rank, each in enumerate(steps)}, GROUP) or "")

    def test_table(self) -> None:
        """The ways of all ranks, and the odd step."""
        one_more = "rank 0 alone called all_reduce #3 (m.py)"
        table: dict[str, tuple[tuple[str, ...], str]] = {
            "one more, found at the end": (("ssmsss", "sssss", "sssss"), one_more),
            "of two ranks": (("ssmsss", "sssssb"), one_more),
            "of two ranks, the other one": (("abab", "aabab"), "rank 1 alone called all_reduce #2 (a.py)"),
            "left out": (("abcabc", "abcabc", "ababca"), "rank 2 left out all_reduce #3 (c.py)"),
            "several more": (
                ("smmmssss", "sssss", "sssss"),
                "rank 0 alone called all_reduce #2 (m.py) and the 2 behind it",
            ),
            "two more": (
                ("smmsss", "ssss", "ssss"),
                "rank 0 alone called all_reduce #2 (m.py) and the one behind it",
            ),
            "two more, and one step behind": (
                ("bbxeeb", "bbxbbx"),
                "rank 0 alone called all_reduce #4 (e.py) and the one behind it",
            ),
            "more, at lines of its own": (
                ("bxeeeeb", "bxbbbbx"),
                "rank 0 alone called all_reduce #3 (e.py) and the 3 behind it",
            ),
            "more, at lines where others come too": (("bxeeeeb", "bxbbbbxe"), ""),
            "the same way": (("ssss", "ssss", "ssss"), ""),
            "one more at the end": (("ssss", "sss", "sss"), ""),
            "where they wait": (("ssm", "sss", "sss"), ""),
            "two are odd": (("smsss", "smsss", "ssss", "ssss"), ""),
            "a branch by rank": (("masasa", "sasasa", "sasasa"), ""),
            "roots in turn": (("mxmx", "xmxm"), ""),
            "alone": (("sms", "", ""), ""),
        }
        for name, (steps, expected) in table.items():
            with self.subTest(name):
                self.assertEqual(self.found(*steps), expected)

    def test_group(self) -> None:
        """Calls on other groups, and such as were refused, do not count; a full log tells nothing."""
        mine, theirs = way("smss"), way("sss")
        other = call(group="1", members=(0, 1), place="o.py")
        refused = replace(theirs[0], raised=True, refused=True, place="r.py")
        calls = {0: [other, *mine], 1: [refused, *theirs], 2: theirs}
        self.assertEqual(str(odd_step(calls, GROUP)), "rank 0 alone called all_reduce #2 (m.py)")
        self.assertIsNone(odd_step(calls, other.signature.group_key))
        self.assertIsNone(odd_step({**calls, 3: [other] * ENTRIES}, GROUP))

    def test_with_odd_step(self) -> None:
        """It stands behind what is said of a collective of that group, unless it is what is said."""
        calls = {0: way("smss"), 1: way("sss"), 2: way("sss")}
        told = "rank 0 waits in all_reduce #4 (s.py), for which nobody comes"
        found = with_odd_step(Explanation(told, (0,), GROUP), calls)
        self.assertEqual(
            found, Explanation(f"{told}; before that rank 0 alone called all_reduce #2 (m.py)", (0,))
        )
        for same in (
            Explanation(told, (0,)),
            Explanation("rank 0 calls all_reduce #2 (m.py), ranks 1, 2 none", (0,), GROUP),
        ):
            self.assertIs(with_odd_step(same, calls), same)


if __name__ == "__main__":
    unittest.main()
