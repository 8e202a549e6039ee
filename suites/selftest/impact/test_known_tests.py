"""Tests what two maps say together of tests, and which of their records may be out of date."""

from __future__ import annotations

import unittest

from harness.impact.impact_map import ImpactMap
from harness.impact.known_tests import KnownTests, known_tests

A, B, H = "app/a.py", "torch/b.py", "harness/h.py"
HERE = ImpactMap("2.13", {"x": frozenset({A, H})}, {A: "2", H: "2"})
SHIPPED = ImpactMap("2.13", {"x": frozenset({A, B}), "y": frozenset({A, B, H})}, {A: "1", B: "1", H: "1"})


class KnownTestsTest(unittest.TestCase):
    """``known_tests`` and what it returns."""

    def known(self, *maps: ImpactMap, torch: str = "2.13", **digests: str) -> KnownTests:
        """What the maps say where the files have these digests."""
        now = {A: digests.get("a", "1"), B: digests.get("b", "1"), H: digests.get("h", "1")}
        return known_tests(maps, ("x", "y"), torch, now.__getitem__)

    def test_earlier_first(self) -> None:
        """The first map that has a test says all of it; the digests that count are that map's."""
        known = self.known(HERE, SHIPPED, a="2")
        self.assertEqual(known.tests, {"x": HERE.tests["x"], "y": SHIPPED.tests["y"]})
        self.assertEqual((known.executing(A), known.executing(B)), ({"x", "y"}, {"y"}))
        self.assertEqual(known.changed, {A: {"y"}, H: {"x"}})

    def test_changed_for(self) -> None:
        """That a file of the harness has changed counts where one of its files is asked for."""
        known = self.known(SHIPPED, b="2", h="2")
        self.assertEqual(known.changed, {B: {"x", "y"}, H: {"y"}})
        self.assertEqual(known.changed_for([A]).keys(), {B})
        self.assertEqual(known.changed_for([A, "harness/other.py"]).keys(), {B, H})

    def test_releases(self) -> None:
        """Maps of other releases say nothing; where all are, it is known of which."""
        other = ImpactMap("2.12", SHIPPED.tests, SHIPPED.digests)
        self.assertEqual(self.known(other, SHIPPED), self.known(SHIPPED))
        self.assertEqual(self.known(other, ImpactMap()), KnownTests("2.12"))
        self.assertEqual(self.known(ImpactMap()), KnownTests("2.13"))

    def test_of_other_tests(self) -> None:
        """A map without any of the tests says nothing, not even of which release it is."""
        others = ImpactMap("2.12", {"z": frozenset({A})}, {A: "1"})
        self.assertEqual(self.known(others), KnownTests("2.13"))
        self.assertEqual(self.known(others, SHIPPED), self.known(SHIPPED))


if __name__ == "__main__":
    unittest.main()
