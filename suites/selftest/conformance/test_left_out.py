"""Tests which tests may still be there though a run has no result of them."""

from __future__ import annotations

import json
import unittest

from harness.conformance.left_out import LeftOut, before_all, from_json, to_json, together

AT = "suites.c10d.test_x"


class LeftOutTest(unittest.TestCase):
    """A run of one module of the suites, of which it knows one more."""

    def setUp(self) -> None:
        self.found = before_all(
            [AT, "mine.test_y", "suites.c10d.test_empty"],
            ["suites.spmd.test_z"],
            [[f"{AT}.T.test_ran", f"{AT}.T.test_left_out"], ["mine.test_y.T.test_1.5"]],
        ).without([f"{AT}.T.test_ran"])

    def test_has(self) -> None:
        """Gone is what an imported module has no more, and a module of the suites that is not there."""
        for test, there in (
            (f"{AT}.T.test_left_out", True),
            (f"{AT}.T.test_gone", False),
            (f"{AT}.T.test_ran", False),
            ("suites.spmd.test_z.T.test_other_module", True),
            ("suites.spmd.test_removed.T.test", False),
            ("suites.spmd.test_zz.T.test", False),
            ("suites.c10d.test_empty.T.test_gone", False),
            ("mine.test_y.T.test_1.5", True),
            ("mine.test_y.T.test_gone", False),
            ("mine.test_of_another_path.T.test", True),
        ):
            with self.subTest(test):
                self.assertEqual(self.found.has(test), there)

    def test_nothing_known(self) -> None:
        """A report that does not say what was left out was about all of the suites."""
        self.assertFalse(LeftOut().has(f"{AT}.T.test"))

    def test_json(self) -> None:
        """Nothing is lost."""
        self.assertEqual(from_json(json.loads(json.dumps(to_json(self.found)))), self.found)

    def test_together(self) -> None:
        """What one part has imported is no other module, whichever part it is."""
        more = before_all(["suites.spmd.test_z"], [AT, "suites.fsdp.test_u"], [["suites.spmd.test_z.T.test"]])
        both = together([self.found, more])
        self.assertEqual(both.others, {"suites.fsdp.test_u"})
        self.assertEqual(both, together([more, self.found]))
        for test, there in (
            (f"{AT}.T.test_left_out", True),
            (f"{AT}.T.test_gone", False),
            ("suites.spmd.test_z.T.test", True),
            ("suites.spmd.test_z.T.test_gone", False),
        ):
            with self.subTest(test):
                self.assertEqual(both.has(test), there)


if __name__ == "__main__":
    unittest.main()
