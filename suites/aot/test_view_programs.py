"""Random programs of views and writes do compiled what they do in eager, but for what is in the book.

What torch is known to get wrong is an entry of ``suites/bugs``, which knows its failures again. Only what is
not in the book fails a test. ``HARNESS_EXAMPLES=10000`` looks for more; a test then takes longer than its
deadline, so that it asks for ``HARNESS_TIMEOUT=3000`` (``run_tests.py --timeout 3000``), too.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from hypothesis import Phase, assume, given

from harness import (  # noqa: F401  (unittest calls load_tests)
    instantiate_parametrized_tests,
    load_tests,
    parametrize,
    run_tests,
)
from harness.fuzzing.signature import Signature, of_exception
from harness.fuzzing.views import DRAWS, ViewPrograms, structure, told
from harness.graphs import MismatchError, view_programs
from harness.hypothesis_examples import bounded
from suites.aot.base import AotTestCase
from suites.bugs.book import known

#: Of the programs that eager runs, the part that has to be verified to the end.
MOST = 0.6


def signature_of(program, error, options):
    """What the book is asked about."""
    return str(Signature(ViewPrograms.name, of_exception(told(error)), structure(program, options)))


@instantiate_parametrized_tests
class ViewProgramsTest(AotTestCase):
    """Programs by what their arguments have to do with each other."""

    def setUp(self):
        super().setUp()
        self.drawn, self.verified = 0, 0

    def check(self, program, **options):
        """Verify one program, unless it fails in a way that the book knows."""
        assume(program.runs_in_eager())
        self.drawn += 1
        options = {"front_end": self.front_end, **options}
        error = program.failure(**options)
        if error is None:
            self.verified += 1
        elif isinstance(error, MismatchError) or known(signature_of(program, error, options)) is None:
            self.check_reduced(program, error, options)

    def check_reduced(self, program, error, options):
        """Fail unless the smallest program that fails like this one is in the book."""

        def alike(smaller):
            return type(smaller.failure(**options)) is type(error)

        smallest = program.reduced(alike)
        error = smallest.failure(**options)
        signature = signature_of(smallest, error, options)
        if known(signature) is None:
            raise AssertionError(
                f"not in the book: {signature}\n{error}\n\n{smallest.script(**options)}"
            ) from error

    def check_that_most_were_verified(self):
        self.assertGreater(self.verified, MOST * self.drawn)

    @parametrize("dynamic", [False, True])
    def test_private_arguments(self, dynamic):
        """Arguments that share nothing, whose data, sizes and strides are written to."""

        @bounded(12, phases=[Phase.generate])
        @given(view_programs(**DRAWS["private"]))
        def check(program):
            self.check(program, dynamic=dynamic)

        check()
        self.check_that_most_were_verified()

    @parametrize("dynamic", [False, True])
    def test_no_grad_regions(self, dynamic):
        """Some statements are under no_grad; the writes stay in the graph."""

        @bounded(12, phases=[Phase.generate])
        @given(view_programs(**DRAWS["no_grad"]))
        def check(program):
            self.check(program, dynamic=dynamic, keep_input_mutations=True)

        check()
        self.check_that_most_were_verified()

    @parametrize("dynamic", [False, True])
    def test_shared_arguments(self, dynamic):
        """Arguments that are views of each other, or the same, and keep their sizes."""

        @bounded(18, phases=[Phase.generate])
        @given(view_programs(**DRAWS["shared"]))
        def check(program):
            self.check(program, dynamic=dynamic)

        check()
        self.check_that_most_were_verified()


if __name__ == "__main__":
    run_tests()
