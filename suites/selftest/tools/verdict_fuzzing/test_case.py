"""Tests that a case is a function of its seed, and possible, and that everything is drawn in the end."""

from __future__ import annotations

import unittest

from tools.verdict_fuzzing.case import FAULTS, MOMENTS, PEERS, draw, possible
from tools.verdict_fuzzing.faults import _STRIKES

SEEDS = range(4000)


class DrawTest(unittest.TestCase):
    """What ``draw`` draws."""

    def test_pure(self) -> None:
        """A seed draws the same case whatever was drawn before, and draws possible ones only."""
        cases = [draw(seed) for seed in SEEDS[:200]]
        self.assertEqual([draw(case.seed) for case in reversed(cases)], [*reversed(cases)])
        self.assertTrue(all(map(possible, cases)))

    def test_everything_is_drawn(self) -> None:
        """Every fault, moment and doing of peers comes up, and each fault can strike."""
        cases = [draw(seed) for seed in SEEDS]
        self.assertEqual({case.fault for case in cases}, set(FAULTS))
        self.assertEqual({case.moment for case in cases}, set(MOMENTS))
        self.assertEqual({case.peers for case in cases}, set(PEERS))
        self.assertEqual(set(FAULTS) - _STRIKES.keys(), {"async_method", "generator_method"})

    def test_only(self) -> None:
        """Words narrow what is drawn; one that is unknown, or cannot be with another, is an error."""
        drawn = [draw(seed, ["threads", "skip", "collective"]) for seed in SEEDS[:20]]
        self.assertEqual({(c.mode, c.fault, c.peers) for c in drawn}, {("threads", "skip", "collective")})
        with self.assertRaisesRegex(ValueError, "no 'sigsev' to draw"):
            draw(1, ["sigsev"])
        with self.assertRaisesRegex(ValueError, "no case is all of"):
            draw(1, ["threads", "sigkill"])


if __name__ == "__main__":
    unittest.main()
