"""Tests the subclass that a rank gets of its test's class."""

from __future__ import annotations

import pickle
import unittest

from harness.ranks.rank_class import class_of_rank


class Meta(type):
    """A metaclass of a test's class."""


class Case(unittest.TestCase, metaclass=Meta):
    """A case with ranks."""

    shared = object()
    world = 0

    class Inner(unittest.TestCase):
        """A case inside of another class."""


class ClassOfRankTest(unittest.TestCase):
    """``class_of_rank``: the class of which a rank makes its instance."""

    def test_looks_alike(self) -> None:
        """A test sees the names, the text and the metaclass of its own class."""
        for case in (Case, Case.Inner):
            with self.subTest(case):
                own = class_of_rank(case)
                self.assertIsNot(own, case)
                self.assertTrue(issubclass(own, case))
                self.assertIs(type(own), type(case))
                for name in ("__name__", "__qualname__", "__module__", "__doc__"):
                    self.assertEqual(getattr(own, name), getattr(case, name), name)
                self.assertEqual(str(own("run").id()), str(case("run").id()))

    def test_what_is_set_on_it(self) -> None:
        """What one rank sets on its class is seen by no other rank; what the class has is seen by all."""
        one, other = class_of_rank(Case), class_of_rank(Case)
        one.world = 1
        self.assertEqual((one.world, other.world, Case.world), (1, 0, 0))
        self.assertIs(one.shared, Case.shared)

    def test_pickled_by_name(self) -> None:
        """What is found by the class's name is the test's class, and not a rank's."""
        with self.assertRaises(pickle.PicklingError):
            pickle.dumps(class_of_rank(Case))
        self.assertIs(pickle.loads(pickle.dumps(Case)), Case)


if __name__ == "__main__":
    unittest.main()
