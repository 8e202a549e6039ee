"""Compiled collectives with arguments beyond the defaults: reductions, sub-groups, dimensions, second calls.

Four ranks, so that a group may have another size than one and the world. Each rank gives other numbers, and
results are worked out from all ranks' numbers; each compiled function is called twice, with other numbers.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp
from torch.distributed import _functional_collectives as funcol

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from harness.targets import Capability, needs
from suites.dynamo.base import DdpRanksTestCase

#: Groups of global ranks, of which each rank is in one; their ranks are not those of the world.
PAIRS = ((0, 2), (1, 3))
REDUCTIONS = {
    "sum": (ReduceOp.SUM, lambda parts: parts.sum(0)),
    "max": (ReduceOp.MAX, lambda parts: parts.amax(0)),
    "min": (ReduceOp.MIN, lambda parts: parts.amin(0)),
    "product": (ReduceOp.PRODUCT, lambda parts: parts.prod(0)),
    "avg": (ReduceOp.AVG, lambda parts: parts.mean(0)),
}


@needs(Capability.SUB_GROUPS)
class CollectiveArgumentsTest(DdpRanksTestCase):
    """On the world, and on pairs of ranks.

    A graph that holds a process group keeps its connections open, so these ranks cannot be kept.
    """

    world_size = 4
    rank_modes = ("fresh",)

    def setUpRank(self):
        super().setUpRank()
        made = {ranks: dist.new_group(list(ranks)) for ranks in PAIRS}
        mine = next(ranks for ranks in PAIRS if self.rank in ranks)
        self.groups = (("world", dist.group.WORLD, range(self.world_size)), ("pair", made[mine], mine))

    def numbers(self, rank, turn):
        """What a rank gives in a turn: 4 x 2 numbers that no other rank gives, in another order by rank."""
        values = torch.arange(8.0).reshape(4, 2).roll(rank, 0)
        return (values + 3 * rank + turn + 1) / 4

    def check(self, cases):
        """Compile the calls of all cases in one graph for each group, and compare what each gives.

        A case has ``call(group, numbers)`` and ``expected(parts, place)``, by a name: ``parts`` are what the
        members of the group give, stacked; ``place`` is this rank's among them.
        """
        calls = [call for call, _ in cases.values()]
        for name, group, members in self.groups:
            torch._dynamo.reset()
            counter = self.counted("eager")

            def run(x, group=group):
                return [call(group, x) for call in calls]

            compiled = torch.compile(run, backend=counter, fullgraph=True)
            for turn in range(2):
                parts = torch.stack([self.numbers(rank, turn) for rank in members])
                place = list(members).index(self.rank)
                found = compiled(self.numbers(self.rank, turn))
                for (case, (_, expected)), own in zip(cases.items(), found, strict=True):
                    with self.subTest(case, group=name, turn=turn):
                        self.assertEqual(own, expected(parts, place))
            self.assertEqual(counter.frame_count, 1)

    def test_all_reduce_by_every_reduction(self):
        def in_place(reduction):
            def call(group, x):
                x = x.clone()
                dist.all_reduce(x, op=reduction, group=group)
                return x * 1

            return call

        cases = {
            name: (in_place(reduction), lambda parts, place, of=of: of(parts))
            for name, (reduction, of) in REDUCTIONS.items()
        }
        cases["functional"] = (
            lambda group, x: funcol.all_reduce(x, "min", group) * 1,
            lambda parts, place: parts.amin(0),
        )
        self.check(cases)

    def test_reduce_scatter_by_reductions(self):
        def in_place(reduction):
            def call(group, x):
                out = x.new_empty(x.shape[0] // group.size(), x.shape[1])
                dist.reduce_scatter_tensor(out, x, op=reduction, group=group)
                return out * 1

            return call

        def scattered(of):
            return lambda parts, place: of(parts).chunk(len(parts))[place]

        self.check(
            {name: (in_place(REDUCTIONS[name][0]), scattered(REDUCTIONS[name][1])) for name in ("max", "avg")}
        )

    @unittest.skipUnless(torch_at_least("2.13"), "each is compiled more than once before torch 2.13")
    def test_gathers_and_scatters_over_dimensions(self):
        def gathered(dim):
            return (
                lambda group, x: funcol.all_gather_tensor(x, dim, group) * 1,
                lambda parts, place: torch.cat(list(parts), dim),
            )

        def scattered(dim):
            return (
                lambda group, x: funcol.reduce_scatter_tensor(x, "max", dim, group) * 1,
                lambda parts, place: parts.amax(0).chunk(len(parts), dim)[place],
            )

        self.check({f"gathered {dim}": gathered(dim) for dim in (0, 1)})
        # Columns are two, so only pairs can share them out.
        self.groups = self.groups[1:]
        self.check({f"scattered {dim}": scattered(dim) for dim in (0, 1)})

    def test_broadcast_from_each_member(self):
        def from_(source):
            return (
                lambda group, x: funcol.broadcast(x, source, group) * 1,
                lambda parts, place: parts[source],
            )

        self.check({f"source {source}": from_(source) for source in (0, 1)})

    def test_all_to_all_of_uneven_parts(self):
        """The first member gets one row of each, the last the others."""

        def call(group, x):
            sizes = [1] * (group.size() - 1) + [4 - (group.size() - 1)]
            mine = sizes[dist.get_rank(group)]
            return funcol.all_to_all_single(x, [mine] * group.size(), sizes, group) * 1

        def expected(parts, place):
            sizes = [1] * (len(parts) - 1) + [4 - (len(parts) - 1)]
            return torch.cat([part.split(sizes)[place] for part in parts])

        self.check({"all_to_all": (call, expected)})

    def test_gradients(self):
        """Through collectives that have them, of a loss that differs by rank; on pairs."""
        for name, group, members in self.groups[1:]:
            place, size = list(members).index(self.rank), len(members)
            weights = [self.numbers(rank, 5) for rank in members]
            calls = {
                "all_gather": (
                    lambda x, w, group=group: (
                        funcol.all_gather_tensor_autograd(x, 0, group) * torch.cat([w] * group.size())
                    ).sum(),
                    sum(weights),
                ),
                "reduce_scatter": (
                    lambda x, w, group=group: (
                        funcol.reduce_scatter_tensor_autograd(x, "sum", 0, group)
                        * w[: x.shape[0] // group.size()]
                    ).sum(),
                    torch.cat([weight[: 4 // size] for weight in weights]),
                ),
            }
            for called, (function, expected) in calls.items():
                compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
                for turn in range(2):
                    x = self.numbers(self.rank, turn).requires_grad_()
                    compiled(x, weights[place]).backward()
                    with self.subTest(called, group=name, turn=turn):
                        self.assertEqual(x.grad, expected)

    def test_two_collectives_on_two_groups(self):
        """In one graph: the second group is not the first one's."""
        _, world, _ = self.groups[0]

        def call(group, x):
            return funcol.all_reduce(funcol.all_reduce(x, "max", group), "min", world) * 1

        def expected(parts, place):
            pairs = [torch.stack([self.numbers(rank, self.turn) for rank in pair]) for pair in PAIRS]
            return torch.stack([pair.amax(0) for pair in pairs]).amin(0)

        counter = self.counted("eager")
        _, pair, _ = self.groups[1]
        compiled = torch.compile(lambda x: call(pair, x), backend=counter, fullgraph=True)
        for self.turn in range(2):
            self.assertEqual(compiled(self.numbers(self.rank, self.turn)), expected(None, None))
        self.assertEqual(counter.frame_count, 1)

    def test_what_groups_tell(self):
        """Ranks and sizes of a group, in the graph: by its members, and the names of its ranks."""
        for name, group, members in self.groups:
            torch._dynamo.reset()  # what is compiled for a group serves another one, wrongly (2.13)

            def tells(x, group=group):
                return (
                    x + dist.get_rank(group) * 10 + dist.get_world_size(group) * 100,
                    dist.get_process_group_ranks(group),
                    dist.get_global_rank(group, 1),
                    group.rank(),
                    group.size(),
                )

            place, size = list(members).index(self.rank), len(members)
            with self.subTest(name):
                found = torch.compile(tells, backend="eager", fullgraph=True)(torch.zeros(1))
                expected = (
                    torch.full((1,), place * 10.0 + size * 100),
                    list(members),
                    members[1],
                    place,
                    size,
                )
                self.assertEqual(found, expected)


if __name__ == "__main__":
    run_tests()
