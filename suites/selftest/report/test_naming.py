"""Self-tests of harness.report.naming: the parts of every kind of id that unittest makes."""

from __future__ import annotations

import unittest

from harness.report.naming import TestName, parse_id


class ParseIdTest(unittest.TestCase):
    """The function ``parse_id`` and the names that it returns."""

    def test_table(self) -> None:
        """Tests, fixtures, modules that did not import and parametrised names are split into their parts."""
        table = {
            "suites.c10d.test_sum.SumTest.test_a": ("suites.c10d.test_sum", "SumTest", "test_a"),
            "m.T.test_x[0.5]": ("m", "T", "test_x[0.5]"),
            "m.T.test_x (p=0.5)": ("m", "T", "test_x (p=0.5)"),
            "setUpClass (pkg.m.T)": ("pkg.m", "T", "setUpClass"),
            "tearDownClass (T)": ("T", "", "tearDownClass"),
            "setUpModule (pkg.m)": ("pkg.m", "", "setUpModule"),
            "suites.c10d.test_x": ("suites", "c10d", "test_x"),
            "test_x": ("test_x", "", "test_x"),
            "T.test_a": ("T", "", "test_a"),
            "odd": ("odd", "", "odd"),
        }
        for test_id, parts in table.items():
            with self.subTest(test_id):
                self.assertEqual(parse_id(test_id), TestName(*parts))

    def test_no_part_is_empty_that_a_report_needs(self) -> None:
        for test_id in ("", "[", " ", ".", "a.b.", "..."):
            with self.subTest(repr(test_id)):
                name = parse_id(test_id)
                self.assertTrue(name.module and name.classname and name.method)

    def test_suite(self) -> None:
        """The suite is the package below ``suites``, or the first name of the module."""
        self.assertEqual(parse_id("suites.c10d.test_sum.T.t").suite, "c10d")
        self.assertEqual(parse_id("suites.c10d.test_sum").suite, "c10d")
        self.assertEqual(parse_id("mine.test_sum.T.t").suite, "mine")


if __name__ == "__main__":
    unittest.main()
