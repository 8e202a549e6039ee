"""Tests which tests of a mutant go first, whatever the limit: those whose module names a file beside it."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from tools.mutation.tables import tables_first

ACCEPTED = 'ACCEPTED = Path(__file__).with_name("answers.txt")\n'


class TablesFirstTest(unittest.TestCase):
    """``tables_first`` in a directory with two modules of a package."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        (self.root / "p").mkdir()
        (self.root / "p" / "test_answers.py").write_text(ACCEPTED)
        (self.root / "p" / "test_numbers.py").write_text("ACCEPTED = {}\n")

    def test_order_and_limit(self) -> None:
        """The limit is that of the others, whose order stays; a module that is gone has no file."""
        quick, slow = (f"p.test_answers.AnswersTest.test_{name}" for name in ("quick", "slow"))
        others = ["p.test_numbers.NumbersTest.test_one", "p.test_gone.GoneTest.test_two"]
        tests = [others[0], quick, others[1], slow]
        self.assertEqual(tables_first(tests, None, self.root), [quick, slow, *others])
        self.assertEqual(tables_first(tests, 1, self.root), [quick, slow, others[0]])

    def test_tables_of_the_suites(self) -> None:
        """Each file of accepted answers is known by the test beside it."""
        suites = Path(__file__).parents[3]
        files = list(suites.glob("*/*.txt"))
        self.assertGreater(len(files), 20)
        known: list[str] = []
        for module in suites.glob("*/test_*.py"):
            test = f"suites.{module.parent.name}.{module.stem}.SomeTest.test_it"
            known += [module.parent.name] * (tables_first([test], 0) == [test])
        self.assertEqual(sorted(known), sorted(file.parent.name for file in files))
