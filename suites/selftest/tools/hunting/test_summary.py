"""Tests what a hunt says in the end: known bugs, new ones once each, and how the finds become rarer."""

from __future__ import annotations

import unittest
from dataclasses import replace

from harness.fuzzing.signature import Failure, Kind, Signature
from tools.hunting.journal import Batch, Find
from tools.hunting.summary import curve, file_name, summary

SIGNATURE = Signature("aot", Failure(Kind.WRONG, "values"), "a + b")
NEW = Find(SIGNATURE, 3, 1, True, "assert False\n", None, {"2.13": "silently wrong: values", "2.12": ""})
KNOWN = replace(NEW, entry="a_bug", releases={})
ON_RANKS = replace(NEW, signature=replace(SIGNATURE, structure="b"), releases={"2.13": ""})


class SummaryTest(unittest.TestCase):
    def test_known_and_new(self) -> None:
        longer = replace(NEW, script="assert False  # longer\n")
        found = summary([Batch("aot", 3, 5, 1, 4, 60.0), KNOWN, KNOWN, longer, NEW, ON_RANKS])
        text = "\n".join(found.lines)
        self.assertIn("aot: 5 programs in 1 minutes, 4 failed, 1 rejected", text)
        self.assertIn("known: 2 times\n      2 a_bug", text)
        self.assertIn("new: 1; only on ranks, and not as a script: 1", text)
        self.assertIn(f"    2 {file_name(str(SIGNATURE))} {SIGNATURE}", text)
        (script,) = found.scripts.values()
        self.assertTrue(script.endswith("# torch 2.12: passes\nassert False\n"), script)
        self.assertIn("# --fuzzer aot, seed 3, program 1\n", script)

    def test_fuzzer_that_drew_it(self) -> None:
        """A variant's finds are those of the fuzzer to the book, but their seed is the variant's."""
        (script,) = summary([replace(NEW, fuzzer="aot-pairs")]).scripts.values()
        self.assertIn("# --fuzzer aot-pairs, seed 3, program 1\n", script)

    def test_race(self) -> None:
        """A race is new although its script passes, and is told with a schedule of each end."""
        ends = {"HARNESS_CHAOS=7 (rank 0 slow)": "silently wrong: values", "no delays": ""}
        found = summary([replace(ON_RANKS, schedules=ends)])
        told = (
            "a race; on ranks of the harness it",
            "  passes with no delays",
            "  fails with HARNESS_CHAOS=7 (rank 0 slow): silently wrong: values",
        )
        text = "\n".join(found.lines)
        self.assertIn("new: 1; only on ranks, and not as a script: 0", text)
        self.assertIn("\n".join(f"        {line}" for line in told), text)
        (script,) = found.scripts.values()
        self.assertIn("".join(f"# {line}\n" for line in told) + "assert False\n", script)

    def test_finds_that_are_not_shrunk_are_nothing_new(self) -> None:
        self.assertEqual(summary([replace(NEW, shrunk=False)]).scripts, {})

    def test_curve(self) -> None:
        finds = [replace(NEW, signature=replace(SIGNATURE, structure=str(n))) for n in range(8)]
        self.assertTrue(curve([*finds, *finds]).endswith("[2, 2, 2, 2, 0, 0, 0, 0]"))
        self.assertTrue(curve([]).endswith("[0, 0, 0, 0, 0, 0, 0, 0]"))


if __name__ == "__main__":
    unittest.main()
