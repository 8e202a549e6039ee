"""Tests which call a future or a work handle stands for, and that neither is kept alive."""

from __future__ import annotations

import unittest
import weakref

import torch

from harness.communication.call_log import ENTRIES
from harness.communication.record.given_futures import GivenFutures


class GivenFuturesTest(unittest.TestCase):
    """Tokens by futures and work handles."""

    def test_both_stand_for_the_call(self) -> None:
        """Until one of them is over, each by itself; another object stands for nothing."""
        known, work, future = GivenFutures(), torch.Future([]), torch.Future([])
        self.assertFalse(known.tokens_of)
        known.add([7], work, future)
        self.assertTrue(known.tokens_of)
        self.assertEqual(
            (known.tokens(work), known.tokens(future), known.tokens(torch.Future([]))), ((7,), (7,), ())
        )
        self.assertEqual((known.pop(future), known.pop(future), known.pop(work)), ((7,), (), (7,)))
        self.assertFalse(known.tokens_of)

    def test_futures_made_of_a_future(self) -> None:
        """They stand for its call, also when it is over."""
        known, future, made = GivenFutures(), torch.Future([]), torch.Future([])
        known.add([7], future)
        known.add([7], made)
        self.assertEqual((known.pop(future), known.tokens(future), known.tokens(made)), ((7,), (), (7,)))

    def test_one_of_several(self) -> None:
        """It stands for the calls of all, each once; one of none stands for nothing."""
        known, made, other = GivenFutures(), torch.Future([]), torch.Future([])
        known.add([7, 8, 7], made)
        known.add([], other)
        self.assertEqual((known.tokens(made), known.tokens(other)), ((7, 8), ()))

    def test_one_at_the_address_of_another(self) -> None:
        """An object is not taken for one that is gone, nor kept from going."""
        known, work = GivenFutures(), torch.Future([])
        gone = weakref.ref(work)
        known.add([1], work, torch.Future([]))
        del work
        self.assertIsNone(gone())
        others = [torch.Future([]) for _ in range(20)]
        self.assertEqual([known.tokens(each) for each in others], [()] * 20)

    def test_not_more_than_the_log_has(self) -> None:
        known, kept = GivenFutures(), [torch.Future([]) for _ in range(4 * ENTRIES + 2)]
        for each in kept:
            known.add([3], each, each)
        self.assertEqual(known.tokens(kept[0]), ())
        self.assertEqual(known.tokens(kept[-1]), (3,))
        known.clear()
        self.assertFalse(known.tokens_of)


if __name__ == "__main__":
    unittest.main()
