"""Tests what a report has gained and lost since another, as a table."""

from __future__ import annotations

import unittest

from harness.conformance.differences import differences, text
from harness.conformance.left_out import LeftOut
from harness.conformance.matrix import State
from suites.selftest.conformance.samples import cell, everything, report, whole


class DifferencesTest(unittest.TestCase):
    """A cell that is in one state before, and in another afterwards."""

    def test_kinds(self) -> None:
        """What has worked and fails is lost; what has worked and was not tried is gone."""
        for old, new, kind in (
            (State.RIGHT, State.WRONG, "lost"),
            (State.RIGHT, State.CRASHED, "lost"),
            (State.SURPLUS, State.HUNG, "lost"),
            (State.RIGHT, None, "gone"),
            (State.RIGHT, State.UNDECLARED, "gone"),
            (State.RIGHT, State.NOT_RUN, "gone"),
            (State.WRONG, State.RIGHT, "gained"),
            (State.UNDECLARED, State.RIGHT, "gained"),
            (None, State.RIGHT, "gained"),
            (State.UNDECLARED, State.SURPLUS, "gained"),
            (State.SURPLUS, State.RIGHT, "other"),
            (State.WRONG, State.CRASHED, "other"),
            (State.WRONG, None, "other"),
            (State.RIGHT, State.RIGHT, ""),
        ):
            with self.subTest(old=old, new=new):
                before, after = ([] if each is None else [cell(each)] for each in (old, new))
                found = differences(report(*before), report(*after))
                kinds = [name for name in ("lost", "gone", "gained", "other") if getattr(found, name)]
                self.assertEqual(kinds, [kind] if kind else [])
                self.assertEqual(found.loses, kind in ("lost", "gone"))

    def test_not_run(self) -> None:
        """What the newer run was not about is not lost, whatever it was; what it skips is gone."""
        for old, new, kind in (
            (State.RIGHT, None, "not_run"),
            (State.WRONG, None, "not_run"),
            (State.RIGHT, State.NOT_RUN, "not_run"),
            (State.RIGHT, State.WRONG, "lost"),
            (State.WRONG, State.RIGHT, "gained"),
        ):
            with self.subTest(old=old, new=new):
                tried = cell(old)
                for test, expected in ((tried.test, kind), ("suites.c10d.test_x.Ranks.test_other", None)):
                    left_out = LeftOut(frozenset({"suites.c10d.test_x"}), tests=frozenset({test}))
                    after = report(*([] if new is None else [cell(new)]), left_out=left_out)
                    found = differences(report(tried), after)
                    if expected is None:
                        self.assertEqual(found.not_run, ())
                    else:
                        self.assertEqual(len(getattr(found, expected)), 1)
                        self.assertEqual(found.loses, expected == "lost")

    def test_text_of_a_narrower_run(self) -> None:
        """What was not run is a line for each suite."""
        old = report(cell(State.RIGHT), cell(State.RIGHT, name="gather"), tests=(whole(State.RIGHT, "spmd"),))
        new = report(left_out=LeftOut(others=frozenset({"suites.c10d.test_x", "suites.spmd.test_x"})))
        found = differences(old, new)
        self.assertFalse(found.loses)
        lines = text(found, old, new).splitlines()
        self.assertEqual(lines[-5:-2], ["not run this time:", "  c10d: 2 cells", "  spmd: 1 test"])
        self.assertEqual(lines[-1], "0 lost, 0 gone, 0 gained, 3 not run this time")

    def test_other_test_of_a_cell(self) -> None:
        """A cell is the same whatever test tries it and whatever it says."""
        before, after = cell(State.WRONG, said="1", test="a.B.c"), cell(State.WRONG, said="2", test="a.B.d")
        self.assertFalse(any(vars_of(differences(report(before), report(after)))))

    def test_tests(self) -> None:
        """Whole tests count as well as cells."""
        right = whole(State.RIGHT)
        found = differences(report(tests=(right,)), report())
        self.assertEqual([change.old for change in found.gone], [right])

    def test_text(self) -> None:
        """The text tells what was lost, with what is said about it, and ends with the counts."""
        old = report(cell(State.RIGHT), cell(State.WRONG, name="gather"), cell(State.RIGHT, name="reduce"))
        new = report(cell(State.WRONG, said="1 is not 2"), cell(State.RIGHT, name="gather"))
        lines = text(differences(old, new), old, new).splitlines()
        self.assertEqual(lines[0], "old: mine on xpu (torch 2.13.0, Python 3.11.7): 2 of 3 cells right")
        at = "(dtype=float32, way=sync, world_size=2)"
        self.assertIn(f"  c10d all_reduce {at}: right -> wrong: 1 is not 2", lines)
        self.assertIn(f"  c10d reduce {at}: right -> gone", lines)
        self.assertIn(f"  c10d gather {at}: wrong -> right", lines)
        self.assertEqual(lines[-1], "1 lost, 1 gone, 1 gained")
        same = text(differences(everything(), everything()), everything(), everything())
        self.assertEqual(same.splitlines()[-1], "0 lost, 0 gone, 0 gained")


def vars_of(found: object) -> list[object]:
    """Returns the values of the fields of a slotted dataclass."""
    return [getattr(found, name) for name in ("lost", "gone", "gained", "other")]


if __name__ == "__main__":
    unittest.main()
