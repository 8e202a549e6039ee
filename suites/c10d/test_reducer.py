"""``dist.Reducer``, the engine of DDP, by itself: no module around it, so that it is told everything by hand.

A reducer gets parameters and their buckets, is told of each forward and of what the backward starts from, and
averages the gradients of a bucket over the group as soon as its last one is there.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import Capability, needs
from suites.c10d.base import C10dTestCase
from suites.c10d.ddp_base import ROUNDED, SEED
from suites.c10d.inputs import EXACTLY

#: So large that no bucket is ever split; bytes.
NO_LIMIT = 2**40
ROWS = 4


class Layers(nn.Module):
    """Three layers without bias, the middle one of which a caller may leave out: 2 -> 10 -> 10 -> 4."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(2, 10, bias=False)
        self.fc2 = nn.Linear(10, 10, bias=False)
        self.fc3 = nn.Linear(10, 4, bias=False)

    def forward(self, x, use_fc2=True):
        x = self.fc1(x).relu()
        x = self.fc2(x).relu() if use_fc2 else x
        return self.fc3(x)


@needs(Capability.DDP)
class ReducerBodies:
    """Reducers over the default group, whatever its size; inputs differ by rank."""

    def setUpRank(self):
        super().setUpRank()
        torch.manual_seed(SEED)
        self.model = Layers().to(self.device)
        # What every rank's part amounts to, in one process: the mean over all rows.
        self.plain = copy.deepcopy(self.model)

    def reducer(self, parameters, buckets, **options):
        """Return a reducer; ``buckets`` are lists of indices of parameters."""
        reducer = dist.Reducer(
            list(parameters), buckets, [NO_LIMIT] * len(buckets), self.group or dist.group.WORLD, **options
        )
        # Without one the process ends by SIGSEGV where the reducer has something to warn of (torch 2.13).
        self.logger = dist.Logger(reducer)
        reducer.set_logger(self.logger)
        return reducer

    def rows(self):
        """Return rows and labels of all ranks."""
        rows = torch.randn(ROWS * self.world_size, 2).to(self.device)
        return rows, torch.randint(4, (ROWS * self.world_size,)).to(self.device)

    def step(self, reducer, **forward):
        """Run a forward and a backward on this rank's rows and, with the plain model, on all of them.

        Return the loss of all rows.
        """
        rows, labels = self.rows()
        mine, wanted = (t.chunk(self.world_size)[self.rank] for t in (rows, labels))
        reducer.prepare_for_forward()
        loss = cross_entropy(self.model(mine, **forward), wanted)
        reducer.prepare_for_backward([loss])
        loss.backward()
        loss_of_all = cross_entropy(self.plain(rows, **forward), labels)
        loss_of_all.backward()
        return float(loss_of_all.detach())

    def check_gradients(self):
        for (name, parameter), plain in zip(
            self.model.named_parameters(), self.plain.parameters(), strict=True
        ):
            with self.subTest(parameter=name):
                self.assertEqual(parameter.grad is None, plain.grad is None)
                if plain.grad is not None:
                    self.assertEqual(parameter.grad, plain.grad, **ROUNDED)

    def buckets_seen(self, reducer):
        """Count, in the list that is returned, the numbers in each bucket whose reduction starts."""
        sizes = []

        def hook(state, bucket):
            sizes.append(bucket.buffer().numel())
            work = dist.all_reduce(bucket.buffer(), group=self.group, async_op=True)
            return work.get_future().then(lambda future: future.value()[0] / self.world_size)

        dist._register_comm_hook(reducer, None, hook)
        return sizes

    def test_single_dtype_single_bucket(self):
        reducer = self.reducer(self.model.parameters(), [[0, 1, 2]])
        sizes = self.buckets_seen(reducer)
        self.step(reducer)
        self.check_gradients()
        self.assertEqual(sizes, [20 + 100 + 40])

    def test_one_bucket_a_parameter(self):
        """Buckets are reduced in the order of the list, which is where the last layer belongs first."""
        reducer = self.reducer(reversed(list(self.model.parameters())), [[0], [1], [2]])
        sizes = self.buckets_seen(reducer)
        self.step(reducer)
        self.check_gradients()
        self.assertEqual(sizes, [40, 100, 20])

    def mixed(self):
        """Return the reducer's parameters where the middle layer is float64."""
        for model in (self.model, self.plain):
            model.fc2.double()
            model.fc2.register_forward_pre_hook(lambda module, args: (args[0].double(),))
            model.fc2.register_forward_hook(lambda module, args, result: result.float())
        return list(self.model.parameters())

    def test_multi_dtype_single_bucket(self):
        """A bucket is one flat tensor, so it has one dtype."""
        with self.assertRaisesRegex(RuntimeError, "All parameters in a bucket must have the same dtype"):
            self.reducer(self.mixed(), [[0, 1, 2]])

    def test_multi_dtype_multi_bucket(self):
        reducer = self.reducer(self.mixed(), [[0, 2], [1]])
        self.step(reducer)
        self.assertEqual(self.model.fc2.weight.grad.dtype, torch.float64)
        self.check_gradients()

    def test_forward_backward(self):
        reducer = self.reducer(self.model.parameters(), [[0, 1, 2]])
        for _ in range(3):
            self.step(reducer)  # gradients add up, as they do in the plain model
            self.check_gradients()

    def test_forward_backward_unused_parameters(self):
        """What a backward does not reach keeps no gradient, and no bucket waits for it."""
        reducer = self.reducer(self.model.parameters(), [[0, 1, 2]], find_unused_parameters=True)
        self.step(reducer, use_fc2=False)
        self.assertIsNone(self.model.fc2.weight.grad)
        self.check_gradients()
        self.step(reducer, use_fc2=True)  # used again: it counts from now on
        self.check_gradients()

    def test_unused_parameters_not_looked_for(self):
        """A bucket that lacks a gradient is never reduced; the next forward says so."""
        reducer = self.reducer(self.model.parameters(), [[0, 1, 2]])
        self.step(reducer, use_fc2=False)
        with self.assertRaisesRegex(
            RuntimeError, "Expected to have finished reduction in the prior iteration"
        ):
            reducer._check_reducer_finalized()

    def test_forward_backward_optimizer(self):
        reducer = self.reducer(self.model.parameters(), [[0, 1, 2]])
        optimizers = [torch.optim.Adam(m.parameters(), lr=0.05) for m in (self.model, self.plain)]
        losses = []
        for _ in range(3):
            for optimizer in optimizers:
                optimizer.zero_grad()
            torch.manual_seed(SEED)  # the same rows each time, so that the loss has to fall
            losses.append(self.step(reducer))
            self.check_gradients()
            for optimizer in optimizers:
                optimizer.step()
        self.assertGreater(losses[0], losses[1])
        self.assertGreater(losses[1], losses[2])
        for parameter, plain in zip(self.model.parameters(), self.plain.parameters(), strict=True):
            self.assertEqual(parameter, plain, rtol=1e-4, atol=1e-5)

    def test_gradients_are_bucket_views(self):
        """All gradients of a bucket share its memory, one after the other."""
        reducer = self.reducer(self.model.parameters(), [[0, 1, 2]], gradient_as_bucket_view=True)
        self.step(reducer)
        self.check_gradients()
        gradients = [parameter.grad for parameter in self.model.parameters()]
        self.assertEqual(len({g.untyped_storage().data_ptr() for g in gradients}), 1)
        offsets = [g.storage_offset() for g in gradients]
        self.assertEqual(sorted(offsets), [0, 20, 120])

    @needs(Capability.SPARSE)
    def test_sparse_gradients(self):
        """A parameter that was announced with sparse gradients gets the sum over ranks, divided by them."""
        table = nn.Embedding(6, 2, sparse=True).to(self.device)
        with torch.no_grad():
            table.weight.fill_(1.0)
        reducer = self.reducer(table.parameters(), [[0]], expect_sparse_gradients=[True])
        reducer.prepare_for_forward()
        result = table(torch.tensor([self.rank, 5], device=self.device)).sum()
        reducer.prepare_for_backward([result])
        result.backward()
        expected = torch.zeros(6, 2)
        expected[: self.world_size] = 1 / self.world_size
        expected[5] = 1
        self.assertTrue(table.weight.grad.is_sparse)
        self.assertEqual(table.weight.grad.to_dense(), expected.to(self.device), **EXACTLY)

    def test_buckets_that_do_not_fit_the_parameters(self):
        table = {"Out of range variable index": [[0, 1, 7]], "Empty bucket specified": [[]]}
        for message, buckets in table.items():
            with self.subTest(buckets=buckets), self.assertRaisesRegex(RuntimeError, message):
                self.reducer(self.model.parameters(), buckets)


class ReducerTest(ReducerBodies, C10dTestCase):
    """One rank, as upstream tests it."""

    world_size = 1


class ReducerOnTwoRanksTest(ReducerBodies, C10dTestCase):
    """Two ranks, where an average differs from what each has."""

    world_size = 2


if __name__ == "__main__":
    run_tests()
