"""The collectives of ``torch.distributed.nn.functional``: what comes out, and the gradients that come back.

One process that has the inputs of all ranks computes what each rank gets, in plain tensors; the gradient of
the sum of all ranks' losses is what each rank's backward has to give.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch.distributed.nn import functional

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.c10d.base import C10dTestCase, gloo_only, needs_all_to_all
from suites.c10d.inputs import EXACTLY

#: The rank that sends or receives for all.
ROOT = 1
#: How many rows rank ``i`` sends to rank ``j``.
ROWS = ((1, 2, 0), (2, 1, 1), (0, 3, 2))


class DifferentiableCollectivesTest(C10dTestCase):
    """Three ranks with numbers of their own, and with weights of their own for what they get."""

    world_size = 3

    def given(self, rank):
        """Return a rank's input, a row for each rank."""
        return torch.arange(6.0, device=self.device).reshape(3, 2) + 10 * (rank + 1)

    def check(self, communicate, expected, *, given=None, only_root=False, members=None):
        """Check results and gradients of a collective that is used twice in a program.

        ``expected`` is what each rank gets, given the inputs of all. With ``only_root`` the others get
        nothing that is defined. With ``members`` these alone take part, and are counted from 0.
        """
        given, members = given or self.given, members or list(range(self.world_size))
        at = members.index(self.rank)
        inputs = [given(rank).requires_grad_() for rank in members]
        wanted = [expected(place, [2 * each for each in inputs]) for place in range(len(members))]
        losses = sum(self.loss(rank, parts, only_root) for rank, parts in zip(members, wanted, strict=True))
        # Zeros where a rank's input comes to nobody.
        gradients = torch.autograd.grad(losses, inputs, allow_unused=True, materialize_grads=True)
        mine = given(self.rank).requires_grad_()
        for _ in range(2):
            mine.grad = None
            found = communicate(2 * mine)
            found = found if isinstance(found, tuple) else (found,)
            if self.rank == ROOT or not only_root:
                self.assertEqual(found, wanted[at], **EXACTLY)
            self.loss(self.rank, found, only_root).backward()
            self.assertEqual(mine.grad, gradients[at], **EXACTLY)

    def loss(self, rank, parts, only_root):
        """Weigh what a rank gets by its number and each element's place; what is not defined by nothing."""
        weight = 0.0 if only_root and rank != ROOT else rank + 1.0
        places = [
            torch.arange(1.0, 1 + part.numel(), device=part.device).reshape(part.shape) for part in parts
        ]
        return sum(
            weight * (number + 2) * (part * place).sum()
            for number, (part, place) in enumerate(zip(parts, places, strict=True))
        )

    def test_broadcast(self):
        self.check(lambda x: functional.broadcast(x, ROOT), lambda _, all_of: (all_of[ROOT],))

    def test_gather(self):
        self.check(lambda x: functional.gather(x, ROOT), lambda _, all_of: tuple(all_of), only_root=True)

    def test_scatter(self):
        self.check(lambda x: functional.scatter(list(x), ROOT), lambda rank, all_of: (all_of[ROOT][rank],))

    def test_reduce(self):
        self.check(lambda x: functional.reduce(x, ROOT), lambda _, all_of: (sum(all_of),), only_root=True)

    def test_all_reduce(self):
        self.check(functional.all_reduce, lambda _, all_of: (sum(all_of),))

    def test_all_gather(self):
        self.check(functional.all_gather, lambda _, all_of: tuple(all_of))

    def test_reduce_scatter(self):
        self.check(
            lambda x: functional.reduce_scatter(torch.empty_like(x[0]), list(x)),
            lambda rank, all_of: (sum(each[rank] for each in all_of),),
        )

    def test_all_to_all(self):
        self.check(
            lambda x: functional.all_to_all([torch.empty_like(part) for part in x], list(x)),
            lambda rank, all_of: tuple(each[rank] for each in all_of),
        )

    def test_in_a_group_of_two(self):
        """Those in it communicate with each other alone.

        Of the first ranks of all: gloo's backwards take ranks of the group for those of all.
        """
        members = [0, 1]
        group = dist.new_group(members, backend=self.backend)
        if self.rank not in members:
            return
        for name, communicate, expected in (
            ("all_gather", lambda x: functional.all_gather(x, group), lambda _, of: tuple(of)),
            ("all_reduce", lambda x: functional.all_reduce(x, group=group), lambda _, of: (sum(of),)),
            (
                "reduce_scatter",
                lambda x: functional.reduce_scatter(torch.empty_like(x[0]), list(x[:2]), group=group),
                lambda place, of: (sum(each[place] for each in of),),
            ),
            (
                "all_to_all",
                lambda x: functional.all_to_all(
                    [torch.empty_like(each) for each in x[:2]], list(x[:2]), group
                ),
                lambda place, of: tuple(each[place] for each in of),
            ),
        ):
            with self.subTest(name):
                self.check(communicate, expected, members=members)

    @needs_all_to_all
    def test_all_to_all_of_uneven_parts(self):
        sends, receives = ROWS[self.rank], [row[self.rank] for row in ROWS]

        def given(rank):
            rows = sum(ROWS[rank])
            return torch.arange(2.0 * rows, device=self.device).reshape(rows, 2) + 10 * (rank + 1)

        self.check(
            lambda x: functional.all_to_all_single(x.new_empty(sum(receives), 2), x, receives, [*sends]),
            lambda rank, all_of: (
                torch.cat([each.split(ROWS[sender])[rank] for sender, each in enumerate(all_of)]),
            ),
            given=given,
        )

    @gloo_only
    def test_gathering_into_one_tensor_is_not_for_gloo(self):
        """Its forward is; its backward says so."""
        mine = self.given(self.rank).requires_grad_()
        found = functional._all_gather_base(mine.new_empty(9, 2), mine * 1)
        self.assertEqual(found, torch.cat([self.given(rank) for rank in range(3)]), **EXACTLY)
        with self.assertRaisesRegex(RuntimeError, "Backend not supported"):
            found.sum().backward()


if __name__ == "__main__":
    run_tests()
