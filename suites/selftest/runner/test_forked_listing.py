"""Tests that a module which ranks import themselves is listed in a fork, and what a run imports how often."""

from __future__ import annotations

import unittest
from collections import Counter
from typing import ClassVar

from suites.selftest.runner.runs import Finished, RunnerCase

FIRST = """
NOTES = os.path.join(os.path.dirname(__file__), "notes")
def note(what):
    with open(NOTES, "a") as file:
        file.write(f"{what}\\n")
note("first")
"""
ASKING = """
import multiprocessing
from harness import MultiProcessTestCase
IN_CHILD, HERE = multiprocessing.current_process().name != "MainProcess", os.getpid()

class T(MultiProcessTestCase):
    world_size = 2
    import_in_ranks = True

    def test_it(self):
        self.assertEqual((IN_CHILD, HERE), (True, os.getpid()))
        made_first.note("rank")

    def test_again(self):
        pass
"""
PYTEST = "import pytest\npytestmark = pytest.mark.filterwarnings('default')\n"


class ForkedListingTest(RunnerCase):
    """Runs of ``run_tests.py --drop-in`` over a module that asks which process it is in."""

    imports: ClassVar = ("torch",)

    def play(self, body: str, *others: str) -> tuple[Finished, Counter[str]]:
        """Runs the module, and returns what its processes have noted."""
        self.write("made_first", FIRST)
        path = self.directory / "test_made.py"
        path.write_text("import made_first\nimport os\n" + body)
        run = self.run_tests("--drop-in", "test_made.py", *others)
        notes = self.directory / "notes"
        return run, Counter(notes.read_text().split() if notes.exists() else ())

    def test_imported_once(self) -> None:
        """What the module imports first is imported once for zygote, worker and ranks, by pytest as well."""
        for name, more in (("unittest", ""), ("pytest", PYTEST)):
            with self.subTest(name):
                (self.directory / "notes").unlink(missing_ok=True)
                run, notes = self.play(ASKING + more)
                self.assertEqual(run.code, 0, run.out)
                self.assertIn("2 passed", run.out)
                self.assertEqual(notes, {"first": 1, "rank": 2})

    def test_beside_another_module(self) -> None:
        """Not so where the zygote imports others as well, of whose effects such ranks are to know nothing."""
        self.write("test_other", "class T(unittest.TestCase):\n    def test(self): pass\n")
        run, notes = self.play(ASKING, "test_other.py")
        self.assertEqual(run.code, 0, run.out)
        self.assertIn("3 passed", run.out)
        self.assertGreater(notes["first"], 1)

    def test_import_that_fails(self) -> None:
        """An error of the import is the module's, and one that ends the fork is told as ever."""
        for body, text in (
            ("multiprocessing_ = 'current_process()'\n1 / 0\n", "ZeroDivisionError"),
            ("# current_process()\nos._exit(7)\n", "exit code 7"),
        ):
            with self.subTest(text):
                run, _ = self.play(body)
                self.assertEqual(run.code, 1, run.out)
                self.assertIn(text, run.out)


if __name__ == "__main__":
    unittest.main()
