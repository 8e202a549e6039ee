"""``view_programs``: its programs have the features asked for, run in eager, and find a faulty compiler."""

from __future__ import annotations

import itertools
import unittest

from hypothesis import Phase, given

from harness import DynamoTestCase, same_draws
from harness.graphs import ViewProgram, view_programs
from harness.graphs.view_program_lines import METADATA
from harness.hypothesis_examples import bounded
from suites.selftest.graphs.test_programs import loses_sines


class DrawnTest(DynamoTestCase):
    """The strategy ``view_programs`` and its draws."""

    def test_same_each_time(self) -> None:
        """One seed always draws the same programs."""
        strategy = view_programs()
        sources = [program.source for program in same_draws(strategy, 20)]
        self.assertEqual(sources, [program.source for program in same_draws(strategy, 20)])
        self.assertGreater(len(set(sources)), 10)

    def test_kinds(self) -> None:
        """Features that are switched off are not drawn, the others are."""

        def lines(**options: bool) -> str:
            programs = same_draws(view_programs(**options), 150)
            return "\n".join(program.source for program in programs)

        everything = lines()
        names = {text.split("(")[0].removeprefix("{0}") + "(" for text in METADATA}
        for text in (*names, "no_grad", "y0[1:]", "detach()", "copy_"):
            self.assertIn(text, everything)
        plain = lines(metadata=False, shared=False, no_grad=False)
        for text in (*names, "no_grad", "y0[1:]"):
            self.assertNotIn(text, plain)

    @bounded(40, phases=[Phase.generate])
    @given(view_programs())
    def test_runs(self, program: ViewProgram) -> None:
        """Every program runs in eager, and no argument is a leaf."""
        function, inputs = program.functions()
        leaves, arguments = inputs()
        for leaf, argument in itertools.product(leaves, arguments):
            self.assertIsNot(leaf, argument)
        outputs = function(*arguments)
        self.assertEqual(len(outputs), len(program.outputs))

    def test_finds(self) -> None:
        """A few dozen draws find a faulty compiler."""
        failed = 0
        for program in same_draws(view_programs(shared=False, no_grad=False), 30):
            if any("sin" in line for line in program.body) and program.runs_in_eager():
                try:
                    program.verify(backend=loses_sines)
                except AssertionError:
                    failed += 1
        self.assertGreater(failed, 0)


if __name__ == "__main__":
    unittest.main()
