"""The model of DDPOptimizer's bucketing rule: examples worked out by hand, and properties of all models."""

from __future__ import annotations

import unittest

from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.graphs.ddp_bucketing import (
    DOCUMENTED,
    MODEL_OUTPUT,
    DdpParameter,
    Deviations,
    ForwardOperator,
    expected_buckets,
)
from harness.hypothesis_examples import bounded


def chain(*weights: tuple[DdpParameter, ...]) -> list[ForwardOperator]:
    """Steps each of which reads the one before; the caller reads the last."""
    last = len(weights) - 1
    return [
        ForwardOperator(each, readers=(MODEL_OUTPUT if index == last else index + 1,))
        for index, each in enumerate(weights)
    ]


def of(*sizes: int) -> tuple[DdpParameter, ...]:
    """Weights that are named after their sizes."""
    return tuple(DdpParameter(str(size), size) for size in sizes)


class ExamplesTest(unittest.TestCase):
    """Small models whose buckets were worked out by hand."""

    def check(
        self,
        steps: list[ForwardOperator],
        expected: list[str],
        cap: int = 10,
        first_cap: int = 5,
        deviations: Deviations = DOCUMENTED,
    ) -> None:
        """Require these buckets; ``expected`` has each bucket's parameter names, separated by spaces."""
        found = expected_buckets(steps, cap, first_cap, deviations)
        self.assertEqual([" ".join(bucket.names) for bucket in found], expected)

    def test_backwards(self) -> None:
        """Buckets go from the last step to the first, and within a step in the order of its arguments."""
        self.check(chain(of(11, 1), of(12, 2), of(13, 3)), ["13 3", "12 2", "11 1"])

    def test_first_limit(self) -> None:
        """The first limit is for the first bucket alone; a bucket is full when it reaches its limit."""
        self.check(chain(of(9), of(1), of(4), of(5)), ["5", "4 1 9"])
        self.check(chain(of(9), of(6), of(4), of(5)), ["5", "4 6", "9"])
        self.check(chain(of(9), of(6), of(3), of(4)), ["4 3", "6 9"])

    def test_a_step_is_not_torn(self) -> None:
        """All parameters of one step are in one bucket."""
        self.check(chain(of(7), of(8, 9, 6)), ["8 9 6", "7"])

    def test_steps_without_parameters(self) -> None:
        """Steps without parameters join the open bucket; ahead of all others they are no bucket."""
        found = expected_buckets(chain((), (), of(12), (), of(13), ()), 10, 5)
        self.assertEqual([bucket.steps for bucket in found], [(5, 4), (3, 2, 1, 0)])

    def test_what_does_not_count(self) -> None:
        """Frozen and ignored parameters do not count, but their steps are in some bucket."""
        frozen, ignored = (
            DdpParameter("frozen", 50, trainable=False),
            DdpParameter("ignored", 50, ignored=True),
        )
        self.check(chain((frozen,), of(3), (ignored,), of(4)), ["4 3"])
        self.check(chain((frozen,), of(5), (ignored,), of(6)), ["6", "5"])

    def test_no_parameters_at_all(self) -> None:
        """A model without parameters has one empty bucket."""
        self.check(chain((), ()), [""])
        self.check([], [""])

    def test_used_twice(self) -> None:
        """A parameter that is used twice counts once, with the last step that uses it."""
        tied = DdpParameter("tied", 6)
        self.check(chain((tied,), of(5), (tied,)), ["tied", "5"])
        self.check(chain((tied, tied), of(5)), ["5", "tied"])

    def test_by_keyword(self) -> None:
        """A parameter that is given by keyword counts like any other."""
        steps = [
            ForwardOperator(of(4), readers=(1,)),
            ForwardOperator((), aside=of(7), readers=(MODEL_OUTPUT,)),
        ]
        self.check(steps, ["7", "4"])

    def test_useless_pieces(self) -> None:
        """A full bucket whose results nobody reads takes further steps until somebody does."""
        steps = [
            ForwardOperator(of(8), readers=(1, MODEL_OUTPUT)),
            ForwardOperator(of(7), readers=(2,)),
            ForwardOperator(of(6)),
        ]
        self.check(steps, ["6 7 8"])
        self.check(
            [
                ForwardOperator(of(11), readers=(1,)),
                *steps[1:2],
                ForwardOperator(of(6), readers=(MODEL_OUTPUT,)),
            ],
            ["6", "7 11"],
        )

    def test_deviations(self) -> None:
        """Each deviation from the documentation changes the buckets by itself."""
        tied, ignored = DdpParameter("tied", 6), DdpParameter("ignored", 6, ignored=True)
        self.check(
            chain((tied,), (tied, tied)), ["tied tied", "tied"], 10, 5, Deviations(counts_each_use=True)
        )
        self.check(chain(of(4), (ignored,)), ["ignored", "4"], 10, 5, Deviations(counts_ignored=True))
        steps = [
            ForwardOperator(of(4), readers=(1,)),
            ForwardOperator((), aside=of(7), readers=(MODEL_OUTPUT,)),
        ]
        self.check(steps, ["4"], 10, 5, Deviations(misses_aside=True))

    def test_mistakes(self) -> None:
        """A first limit above the other one, and a reader that is not a later step, raise a UsageError."""
        with self.assertRaisesRegex(UsageError, "bucket_cap_mb of at least 1"):
            expected_buckets([], cap=4, first_cap=5)
        for reader in (0, 1, -2):
            with self.subTest(reader), self.assertRaisesRegex(UsageError, "later steps' indices"):
                expected_buckets([ForwardOperator(readers=(reader,))], 10, 5)


WEIGHTS = st.builds(
    DdpParameter, st.sampled_from("abcdefgh"), st.integers(1, 12), st.booleans(), st.booleans()
)


@st.composite
def models(draw: st.DrawFn) -> list[ForwardOperator]:
    """Steps with random parameters, read by random later steps."""
    count = draw(st.integers(1, 12))
    sizes = {name: draw(st.integers(1, 12)) for name in "abcdefgh"}
    weights = WEIGHTS.map(lambda w: DdpParameter(w.name, sizes[w.name], w.name < "g", w.name in "bd"))
    return [
        ForwardOperator(
            tuple(draw(st.lists(weights, max_size=3))),
            tuple(draw(st.lists(weights, max_size=1))),
            tuple(
                sorted(draw(st.sets(st.sampled_from([*range(index + 1, count), MODEL_OUTPUT]), max_size=3)))
            ),
        )
        for index in range(count)
    ]


CAPS = st.tuples(st.integers(1, 30), st.integers(1, 30)).map(lambda pair: (max(pair), min(pair)))
DEVIATIONS = st.builds(Deviations, st.booleans(), st.booleans(), st.booleans())


class PropertiesTest(unittest.TestCase):
    """Properties that hold for every model, computed in another way than by the rule."""

    @bounded(200)
    @given(models(), CAPS, DEVIATIONS)
    def test_every_step_once_backwards(
        self, steps: list[ForwardOperator], caps: tuple[int, int], deviations: Deviations
    ) -> None:
        """Each step is in exactly one bucket, in the order of the backward."""
        found = expected_buckets(steps, *caps, deviations)
        self.assertEqual(
            [index for bucket in found for index in bucket.steps], list(reversed(range(len(steps))))
        )

    @bounded(200)
    @given(models(), CAPS)
    def test_documented_parameters_once(self, steps: list[ForwardOperator], caps: tuple[int, int]) -> None:
        """Each parameter that DDP reduces counts in exactly one bucket, and no other parameter counts."""
        found = expected_buckets(steps, *caps)
        names = [name for bucket in found for name in bucket.names]
        used = {w.name for s in steps for w in (*s.weights, *s.aside) if w.trainable and not w.ignored}
        self.assertEqual(sorted(names), sorted(used))

    @bounded(200)
    @given(models(), CAPS, DEVIATIONS)
    def test_full_but_no_fuller(
        self, steps: list[ForwardOperator], caps: tuple[int, int], deviations: Deviations
    ) -> None:
        """Each bucket but the last reached its limit, and only its last step filled it or made it useful."""
        found = expected_buckets(steps, *caps, deviations)
        for index, bucket in enumerate(found[:-1]):
            cap = caps[1] if index == 0 else caps[0]
            self.assertGreaterEqual(bucket.size, cap)
            shorter = bucket.steps[:-1]
            counted = sum(
                b.size
                for b in expected_buckets(
                    [self.emptied(s, i in shorter) for i, s in enumerate(steps)], 10**6, 10**6, deviations
                )
            )
            if counted >= cap and deviations.counts_each_use:
                readers = {reader for step in shorter for reader in steps[step].readers}
                self.assertLessEqual(readers, set(shorter))

    def emptied(self, step: ForwardOperator, keep: bool) -> ForwardOperator:
        """The step, without its parameters if it is not to be kept."""
        return step if keep else ForwardOperator(readers=step.readers)

    @bounded(200)
    @given(models(), DEVIATIONS)
    def test_limits_out_of_reach(self, steps: list[ForwardOperator], deviations: Deviations) -> None:
        """With limits that are never reached there is one bucket."""
        self.assertEqual(len(expected_buckets(steps, 10**6, 10**6, deviations)), 1)


if __name__ == "__main__":
    unittest.main()
