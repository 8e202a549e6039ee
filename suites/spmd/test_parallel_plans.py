"""``parallelize_module``: which modules a plan means; ``input_reshard``: what is kept for a backward."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from torch import nn
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.distributed.tensor.parallel.input_reshard import input_reshard

from harness import load_tests, run_tests, with_comms  # noqa: F401  (unittest calls load_tests)
from harness.ranks.local import rank
from suites.spmd.dtensor_base import RANKS, ROUNDED, Communication, in_rank_modes
from suites.spmd.parallel_models import WIDTH, Mlp
from suites.spmd.sharding_model import small_numbers
from suites.spmd.style_bodies import StyleBodies

S = Shard
ROWS = (8, WIDTH)


class Plans(StyleBodies):
    """Which modules a plan is about."""

    def stack(self):
        return nn.ModuleDict(
            {"first": Mlp(), "second": Mlp(), "last": nn.Sequential(Mlp(), nn.Linear(WIDTH, 4))}
        )

    def cut_modules(self, plan, **options):
        """The modules of which a plan has cut the weights, in a model that differs by rank."""
        model = self.seeded(self.stack)
        self.assertIs(parallelize_module(model, self.mesh(RANKS), plan, **options), model)
        laid = [
            name.rpartition(".")[0] for name, each in model.named_parameters() if isinstance(each, DTensor)
        ]
        return model, sorted(set(laid))

    @with_comms
    def test_names(self):
        for key, expected in (
            ("first.up", ["first.up"]),
            ("*.up", ["first.up", "second.up"]),
            ("*st.0.down", ["last.0.down"]),
            ("last.[1-9]", ["last.1"]),
        ):
            _, found = self.cut_modules({key: ColwiseParallel()})
            self.assertEqual(found, expected, key)
        with self.assertWarnsOnceRegex(UserWarning, ".*could not be resolved"):
            _, found = self.cut_modules({"frist.up": ColwiseParallel(), "first.down": RowwiseParallel()})
        self.assertEqual(found, ["first.down"])
        with self.assertWarnsOnceRegex(UserWarning, ".*will do nothing"):
            self.assertEqual(self.cut_modules(None)[1], [])
        with self.assertRaisesRegex(TypeError, "ParallelStyle"):
            self.cut_modules([ColwiseParallel()])

    @with_comms
    def test_the_module_itself(self):
        """By an empty name, and in a mesh's context."""
        layer = self.seeded(lambda: nn.Linear(WIDTH, WIDTH))
        with self.mesh(RANKS):
            parallelize_module(layer, parallelize_plan={"": ColwiseParallel()})
        self.assertEqual(layer.weight.placements, (S(0),))
        self.assertEqual(layer.weight.full_tensor(), self.seeded(lambda: nn.Linear(WIDTH, WIDTH), 0).weight)

    @with_comms
    def test_whose_parameters(self):
        """Those of the first rank, of the one that is asked for, or each rank's own."""
        plan = {"first.up": ColwiseParallel(), "first.down": RowwiseParallel(), "last.1": ColwiseParallel()}
        for options, source in (({}, 0), ({"src_data_rank": 2}, 2), ({"src_data_rank": None}, None)):
            model, found = self.cut_modules(plan, **options)
            self.assertEqual(found, ["first.down", "first.up", "last.1"])
            plain = self.seeded(self.stack, source)
            for name, parameter in model.named_parameters():
                if isinstance(parameter, DTensor):
                    whole = plain.get_parameter(name).detach().cpu().numpy()
                    own = self.part(whole, parameter.placements[0])
                    self.assertEqual(parameter.to_local(), own, f"{name} of {source}")


class Saved(StyleBodies):
    """``input_reshard``: what a backward needs is kept in parts."""

    @with_comms
    def test_what_is_kept(self):
        rows, mesh, weights = (
            self.tensor(small_numbers(1, ROWS) / 8),
            self.mesh(RANKS),
            small_numbers(2, ROWS),
        )
        plain, layer = self.seeded(Mlp, 0), input_reshard(self.seeded(Mlp, 0), mesh, 0)
        for _ in range(2):
            with Communication() as communication:
                found = layer(rows)
                self.assertEqual(communication.counts, {})
                (found * self.tensor(weights)).sum().backward()
            # The backward brings back what it needs: both layers' inputs, a weight, and gelu's input.
            self.assertGreaterEqual(communication.counts["all_gather_into_tensor"], 3)
            (plain(rows) * self.tensor(weights)).sum().backward()
        self.assertEqual(found, plain(rows), **ROUNDED)
        for (name, parameter), theirs in zip(plain.named_parameters(), layer.parameters(), strict=True):
            self.assertEqual(theirs.grad, parameter.grad, name, **ROUNDED)
        # Other modules keep their tensors whole.
        with Communication() as communication:
            self.seeded(Mlp, 1)(rows).sum().backward()
        self.assertEqual(communication.counts, {})

    @with_comms
    def test_without_a_dimension(self):
        with rank.outside():
            layer = Mlp()
        self.assertIs(input_reshard(layer, self.mesh(RANKS)), layer)
        self.assertFalse(layer._forward_pre_hooks)


in_rank_modes(globals(), Plans, Saved, modes=("OnPooledRanks",))

if __name__ == "__main__":
    run_tests()
