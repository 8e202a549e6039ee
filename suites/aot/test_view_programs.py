"""Random programs of views and writes do compiled what they do in eager.

What torch is known to get wrong is left out where it would be wrong without a word (``test_known_bugs`` has
it), and counted where it is refused. ``HARNESS_EXAMPLES=10000`` looks for more.
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
from harness.examples import bounded
from harness.graphs import Differs, view_programs
from suites.aot.base import AotTestCase
from suites.aot.known import Known

#: What of programs torch refuses, or has its own assertions fail on; each has a smallest program in
#: ``test_known_bugs``.
REFUSED = (
    Known(
        "no_grad shared",
        "AssertionError",
        r"expected len\(user_mutated_inputs_raw\)",
        "an assertion counts writes that are in the graph",
    ),
    Known("shared", "AssertionError", "does not yet handle non-differentiable view input", "as it says"),
    Known(
        "shared",
        "AssertionError",
        "^ref_metadata|outs_to_grad length",
        "writes through a shared base are counted twice",
    ),
    Known(
        "shared",
        "AssertionError",
        "as_strided_scatter.* was invalid, but is output",
        "the offset of a symbolic shared base is lost",
        modes=("dynamic",),
    ),
    Known("shared", "RuntimeError", "is not tracked with proxy", "as above", modes=("dynamic",)),
)
#: Of the programs that eager runs, the part that has to be verified to the end.
MOST = 0.6


def is_known(error, kind, mode):
    """Whether a program of this kind is known to fail so; of shared arguments an object may be another."""
    if any(known.concerns(kind, mode) and known.is_this(error) for known in REFUSED):
        return True
    return (
        kind == "shared"
        and isinstance(error, Differs)
        and all("is the object of nothing compiled" in difference.what for difference in error.differences)
    )


@instantiate_parametrized_tests
class ViewProgramsTest(AotTestCase):
    """Programs by what their arguments have to do with each other."""

    def setUp(self):
        super().setUp()
        self.drawn, self.verified = 0, 0

    def check(self, program, kind, *, dynamic, **options):
        """Verify one program, unless torch refuses it as programs of its kind are known to be."""
        assume(program.runs_in_eager())
        self.drawn += 1
        refused = []

        def known(error):
            found = is_known(error, kind, "dynamic" if dynamic else "static")
            refused.extend([error] * found)
            return found

        try:
            program.verify(known=known, front_end=self.front_end, dynamic=dynamic, **options)
        except Exception as error:
            if not any(error is one for one in refused):
                raise
        else:
            self.verified += 1

    def check_that_most_were_verified(self):
        self.assertGreater(self.verified, MOST * self.drawn)

    @parametrize("dynamic", [False, True])
    def test_private_arguments(self, dynamic):
        """Arguments that share nothing, whose data, sizes and strides are written to."""

        @bounded(20, phases=[Phase.generate])
        @given(view_programs(shared=False, no_grad=False))
        def check(program):
            self.check(program, "private", dynamic=dynamic)

        check()
        self.assertEqual(self.verified, self.drawn)

    @parametrize("dynamic", [False, True])
    def test_no_grad_regions(self, dynamic):
        """Some statements are under no_grad; the writes stay in the graph."""

        @bounded(20, phases=[Phase.generate])
        @given(view_programs(shared=False))
        def check(program):
            self.check(program, "no_grad", dynamic=dynamic, keep_input_mutations=True)

        check()
        self.check_that_most_were_verified()

    @parametrize("dynamic", [False, True])
    def test_shared_arguments(self, dynamic):
        """Arguments that are views of each other, or the same, and keep their sizes."""

        @bounded(25, phases=[Phase.generate])
        @given(view_programs(metadata=False, no_grad=False))
        def check(program):
            self.check(program, "shared", dynamic=dynamic)

        check()
        self.check_that_most_were_verified()


if __name__ == "__main__":
    run_tests()
