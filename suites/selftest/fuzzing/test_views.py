"""Tests the fuzzer of programs of views: what it draws and changes, and that a difference is told whole."""

from __future__ import annotations

import random
import unittest
from dataclasses import replace
from unittest import mock

from harness.fuzzing import views
from harness.fuzzing.hunted import Place, Rejected
from harness.fuzzing.signature import Kind, of_exception
from harness.fuzzing.views import DRAWS, ViewCase, ViewPrograms, told
from harness.graphs import MismatchError, ViewProgram
from suites.selftest.graphs.test_programs import loses_sines

# No store is asked for.
PLACE = Place(0, 1, None)
PROGRAM = ViewProgram(
    setup=("x0 = torch.arange(1.0, 5).reshape((2, 2)).clone()", "y0 = x0 * 1"),
    leaves=("x0",),
    arguments=("y0",),
    parameters=("a",),
    body=("t0 = a.sin()", "t1 = t0 * 3"),
    outputs=("t1",),
)
CASE = ViewCase(PROGRAM, "private", dynamic=False)


class DrawnTest(unittest.TestCase):
    def test_seeds_have_all_draws(self) -> None:
        first = [next(ViewPrograms().drawn(seed)) for seed in range(30)]
        found = {(case.draw, case.dynamic) for case in first}
        self.assertEqual(found, {(draw, dynamic) for draw in DRAWS for dynamic in (False, True)})

    def test_changed_ones_run_in_eager(self) -> None:
        choice, fuzzer = random.Random(1), ViewPrograms()
        found = {fuzzer.changed(CASE, choice) for _ in range(40)}
        self.assertGreater(len(found), 20)
        self.assertTrue(all(case.program.runs_in_eager() for case in found))
        self.assertEqual({case.draw for case in found}, {"private"})
        self.assertEqual({case.dynamic for case in found}, {False, True})


class RunTest(unittest.TestCase):
    def test_right(self) -> None:
        ViewPrograms().run(CASE, PLACE)

    def test_what_eager_does_not_run_is_rejected(self) -> None:
        unknown = replace(PROGRAM, body=("t1 = t0 * 3",))
        with self.assertRaises(Rejected):
            ViewPrograms().run(replace(CASE, program=unknown), PLACE)

    def test_difference(self) -> None:
        """What is said of each output counts, and no number of a headline."""
        error = PROGRAM.failure(backend=loses_sines)
        assert isinstance(error, MismatchError)
        failing = mock.patch.object(ViewProgram, "failure", lambda self, **options: error)
        with failing, self.assertRaises(AssertionError) as caught:
            ViewPrograms().run(CASE, PLACE)
        failure = of_exception(caught.exception)
        self.assertEqual(failure.kind, Kind.WRONG)
        self.assertRegex(failure.text, r"^output #: values differ: at \[#, #\] # compiled, # in eager")

    def test_other_errors_stay(self) -> None:
        error = RuntimeError("no kernel")
        self.assertIs(told(error), error)


class StructureTest(unittest.TestCase):
    def test_text(self) -> None:
        kept = replace(CASE, draw="no_grad", dynamic=True)
        self.assertEqual(
            ViewPrograms().structure(kept),
            "t0 = a.sin(); t1 = t0 * 3; return t1 | y0 | dynamic=True, keep_input_mutations=True",
        )

    def test_a_backward_that_eager_lacks_is_told(self) -> None:
        setup = (PROGRAM.setup[0] + ".requires_grad_()", "y0 = x0 * 1")
        lost = replace(PROGRAM, setup=setup, body=("t1 = a.sin_()", "t2 = a.mul_(a)"))
        text = views.structure(lost, {"dynamic": False})
        self.assertTrue(text.endswith("dynamic=False, no backward in eager through a"), text)

    def test_writes_that_are_not_recorded_are_told(self) -> None:
        written = replace(PROGRAM, body=("with torch.no_grad():", "    a.mul_(2)", "t1 = a.sin()"))
        text = views.structure(written, {"dynamic": False})
        self.assertTrue(text.endswith("dynamic=False, unrecorded writes to a"), text)


if __name__ == "__main__":
    unittest.main()
