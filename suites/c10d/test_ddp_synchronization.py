"""When DDP synchronizes what: at its start, in ``no_sync``, with uneven inputs, with parameters left out."""

from __future__ import annotations

import copy
import sys
from itertools import cycle, islice
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch import nn

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.c10d.ddp_base import DdpTestCase
from suites.c10d.ddp_models import Branches, Net

EXACT = {"rtol": 0, "atol": 0}


def loss(model, rows):
    """Return the mean over rows, so that averages over equal numbers of rows are averages over all."""
    return model(rows).square().mean()


class DdpStateTest(DdpTestCase):
    """Parameters and buffers that differ by rank until DDP makes them rank 0's."""

    def differing(self, rank):
        """Return a model of which every number tells the rank."""
        model = nn.BatchNorm1d(3).to(self.device)
        for index, tensor in enumerate((*model.parameters(), *model.buffers())):
            tensor.data.fill_(10 * (rank + 1) + index)
        return model

    def check_state(self, ddp, rank):
        """Check that the wrapped model holds what the model of this rank held."""
        expected = self.differing(rank).state_dict()
        for name, tensor in ddp.module.state_dict().items():
            self.assertEqual(tensor, expected[name], **EXACT)

    def test_start_takes_rank_0s_state(self):
        self.check_state(self.wrap(self.differing(self.rank), alike=False), rank=0)

    def test_start_without_init_sync(self):
        self.check_state(self.wrap(self.differing(self.rank), alike=False, init_sync=False), rank=self.rank)
        self.check_state(self.wrap(self.differing(self.rank), alike=False, init_sync=True), rank=0)

    def check_buffers_after_forward(self, *, broadcast):
        ddp = self.wrap(self.differing(self.rank), alike=False, broadcast_buffers=broadcast).eval()
        ddp.module.running_mean.fill_(self.rank + 5)
        ddp(self.draw(4, 3))
        expected = 5 if broadcast else self.rank + 5
        self.assertEqual(ddp.module.running_mean, torch.full((3,), float(expected)), **EXACT)
        # Without broadcasts buffers differ from the start on; parameters are rank 0's all the same.
        source = self.differing(0 if broadcast else self.rank)
        self.assertEqual(ddp.module.running_var, source.running_var, **EXACT)
        self.assertEqual(ddp.module.weight, self.differing(0).weight, **EXACT)

    def test_forward_broadcasts_buffers(self):
        self.check_buffers_after_forward(broadcast=True)

    def test_forward_leaves_buffers_alone(self):
        self.check_buffers_after_forward(broadcast=False)


class DdpNoSyncTest(DdpTestCase):
    """Gradients that are added up before they are exchanged."""

    def check_no_sync(self, **options):
        model = Net().to(self.device)
        plain, ddp = copy.deepcopy(model), self.wrap(model, **options)
        alone = copy.deepcopy(model)
        for _ in range(2):
            for one in (plain, ddp, alone):
                one.zero_grad()
            first, second = (self.draw(4 * self.world_size, 2) for _ in range(2))
            with ddp.no_sync():
                self.backward_beside(plain, ddp, first, loss)
            loss(alone, self.mine(first)).backward()
            self.same_gradients(alone, ddp)
            self.backward_beside(plain, ddp, second, loss)
            self.same_gradients(plain, ddp)

    def test_no_sync(self):
        self.check_no_sync()

    def test_no_sync_grad_is_view(self):
        self.check_no_sync(gradient_as_bucket_view=True)


class DdpUnusedParametersTest(DdpTestCase):
    """Models of which a call leaves parameters out."""

    def check_branches(self, *steps, **options):
        """Compare gradients of three steps, where rank r runs the layers ``names[r]``; ``steps`` recur."""
        model = Branches().to(self.device)
        plain, ddp = copy.deepcopy(model), self.wrap(model, **options)
        for names in islice(cycle(steps), 3):
            plain.zero_grad()
            ddp.zero_grad()
            rows = self.draw(2 * self.world_size, 4)
            parts = zip(rows.chunk(self.world_size), names, strict=True)
            total = sum(plain(part, which).square().mean() for part, which in parts)
            (total / self.world_size).backward()
            ddp(self.mine(rows), names[self.rank]).square().mean().backward()
            self.same_gradients(plain, ddp)

    def test_parameters_unused_on_one_rank(self):
        self.check_branches(("ab", "bc"), find_unused_parameters=True)

    def test_parameters_unused_on_all_ranks(self):
        self.check_branches(("ab", "ab"), find_unused_parameters=True)

    def test_find_unused_parameters_when_unused_parameters_empty(self):
        self.check_branches(("abc", "abc"), find_unused_parameters=True)

    def test_ddp_control_flow_same_across_ranks(self):
        self.check_branches(("ab", "ab"), ("bc", "bc"), ("abc", "abc"), find_unused_parameters=True)

    def test_ddp_control_flow_different_across_ranks(self):
        self.check_branches(("ab", "bc"), ("abc", "b"), ("c", "abc"), find_unused_parameters=True)

    def test_static_graph(self):
        self.check_branches(("ab", "ab"), static_graph=True)

    def test_unused_parameters_are_refused_at_the_next_forward(self):
        ddp = self.wrap(Branches().to(self.device))
        rows = self.draw(2, 4)
        ddp(rows, "ab").sum().backward()
        with self.assertRaisesRegex(
            RuntimeError, "Expected to have finished reduction in the prior iteration"
        ):
            ddp(rows, "ab")


class DdpJoinTest(DdpTestCase):
    """Ranks that run out of rows before the others."""

    def check_join(self, *, by_initial_world_size):
        """Give rank r one batch more than rank r - 1, and compare each step with those that take part."""
        model = nn.Linear(3, 2, bias=False).to(self.device)
        plain, ddp = copy.deepcopy(model), self.wrap(model)
        batches = [self.draw(self.world_size, 4, 3) for _ in range(self.world_size)]
        with ddp.join(divide_by_initial_world_size=by_initial_world_size):
            for step in range(self.rank + 1):
                plain.zero_grad()
                ddp.zero_grad()
                active = range(step, self.world_size)
                divisor = self.world_size if by_initial_world_size else len(active)
                (sum(loss(plain, batches[step][rank]) for rank in active) / divisor).backward()
                loss(ddp, batches[step][self.rank]).backward()
                self.same_gradients(plain, ddp)

    def test_join_divides_by_initial_world_size(self):
        self.check_join(by_initial_world_size=True)

    def test_join_divides_by_those_left(self):
        self.check_join(by_initial_world_size=False)

    def test_join_of_batches_that_are_not_synchronized(self):
        """Those who are out take part in the steps of the others, and not in what these do in ``no_sync``."""
        model = nn.Linear(3, 2, bias=False).to(self.device)
        plain, ddp = copy.deepcopy(model), self.wrap(model)
        batches = [self.draw(self.world_size, 4, 3) for _ in range(2 * self.world_size)]
        with ddp.join():
            for step in range(self.rank + 1):
                plain.zero_grad()
                ddp.zero_grad()
                two = batches[2 * step : 2 * step + 2]
                active = range(step, self.world_size)
                (sum(loss(plain, each[rank]) for rank in active for each in two) / self.world_size).backward()
                with ddp.no_sync():
                    loss(ddp, two[0][self.rank]).backward()
                loss(ddp, two[1][self.rank]).backward()
                self.same_gradients(plain, ddp)

    def test_join_ends_with_the_last_ones_state(self):
        ddp = self.wrap(nn.Linear(3, 2, bias=False).to(self.device))
        with ddp.join():
            for _ in range(self.rank + 1):
                loss(ddp, self.draw(4, 3)).backward()
            ddp.module.weight.data.fill_(self.rank)
        expected = torch.full_like(ddp.module.weight, self.world_size - 1)
        self.assertEqual(ddp.module.weight, expected, **EXACT)

    def test_join_throws_on_early_termination(self):
        self.check_early_termination()

    def test_early_termination_in_a_group_of_its_own(self):
        """Ranks hear of it in the group of the model; the default one may be at something else."""
        group = dist.new_group()
        with mock.patch.object(dist, "all_reduce", wraps=dist.all_reduce) as reduced:
            self.check_early_termination(process_group=group)
        self.assertEqual([call.kwargs["group"] for call in reduced.mock_calls], [group] * reduced.call_count)
        self.assertGreater(reduced.call_count, 0)

    def check_early_termination(self, **options):
        model = nn.Linear(3, 2, bias=False).to(self.device)
        plain, ddp = copy.deepcopy(model), self.wrap(model, **options)
        rows = self.draw(4 * self.world_size, 3)
        message = (
            "Rank 0 exhausted all inputs." if self.rank == 0 else "at least one rank that exhausted inputs."
        )
        with (
            self.refused(RuntimeError, message),
            ddp.join(throw_on_early_termination=True),
        ):
            self.backward_beside(plain, ddp, rows, loss)
            self.same_gradients(plain, ddp)
            for _ in range(self.rank):
                loss(ddp, self.mine(rows)).backward()


if __name__ == "__main__":
    run_tests()
