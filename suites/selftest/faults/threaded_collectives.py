"""Collectives of three ranks on threads and processes; cases/test_threaded_collectives.py runs them."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from harness import DistributedTestBase, MultiProcessTestCase
from harness.releases import torch_at_least
from suites.selftest.faults.threaded import Threaded


class Collectives:
    """Collective bodies that run on threads and on processes; ranks alone determine the values."""

    rank: int

    def test_sums(self) -> None:
        """all_reduce and reduce give the right values for each operation."""
        mine = torch.tensor([self.rank + 1.0, 2.0])
        for operation, expected in (
            (dist.ReduceOp.SUM, [6.0, 6.0]),
            (dist.ReduceOp.MAX, [3.0, 2.0]),
            (dist.ReduceOp.PRODUCT, [6.0, 8.0]),
        ):
            value = mine.clone()
            dist.all_reduce(value, op=operation)
            self.check(value, expected)
        value = mine.clone()
        dist.reduce(value, 2)
        if self.rank == 2:
            self.check(value, [6.0, 6.0])

    def test_gathers(self) -> None:
        """all_gather, gather, all_gather_into_tensor and all_gather_object give the right values."""
        mine = torch.tensor([float(self.rank)])
        parts = [torch.empty(1) for _ in range(3)]
        dist.all_gather(parts, mine)
        self.check(torch.cat(parts), [0.0, 1.0, 2.0])
        whole = torch.empty(3)
        dist.all_gather_into_tensor(whole, mine)
        self.check(whole, [0.0, 1.0, 2.0])
        on_root = [torch.empty(1) for _ in range(3)] if self.rank == 1 else None
        dist.gather(mine, on_root, dst=1)
        if on_root is not None:
            self.check(torch.cat(on_root), [0.0, 1.0, 2.0])
        objects: list[Any] = [None] * 3
        dist.all_gather_object(objects, {"rank": self.rank})
        assert objects == [{"rank": r} for r in range(3)], objects

    def test_moves(self) -> None:
        """broadcast, scatter, reduce_scatter and all_to_all_single work, and all_reduce on a subgroup."""
        value = torch.tensor([float(self.rank)])
        dist.broadcast(value, 1)
        self.check(value, [1.0])
        parts = [torch.tensor([10.0 * r]) for r in range(3)] if self.rank == 0 else None
        dist.scatter(value, parts, src=0)
        self.check(value, [10.0 * self.rank])
        dist.reduce_scatter_tensor(value, torch.arange(3.0) + self.rank)
        self.check(value, [3.0 * self.rank + 3.0])
        out = torch.empty(3)
        dist.all_to_all_single(out, torch.arange(3.0) + 10 * self.rank)
        self.check(out, [self.rank, self.rank + 10.0, self.rank + 20.0])
        pair = dist.new_group([0, 2])
        if self.rank != 1:
            value = torch.tensor([float(self.rank)])
            dist.all_reduce(value, group=pair)
            self.check(value, [2.0])

    def check(self, value: torch.Tensor, expected: list[float]) -> None:
        """Fails unless the values are exactly these."""
        assert value.tolist() == expected, (value, expected)


class Compiled:
    """Bodies that compile collectives, on three ranks."""

    def test_one_graph(self) -> None:
        """Functional collectives, and plain ones that dynamo makes functional, compile to one graph."""

        def functional_sum(x: torch.Tensor) -> torch.Tensor:
            whole = functional.all_reduce(x, "sum", dist.group.WORLD)
            return functional.wait_tensor(whole) + 1

        def plain_sum(x: torch.Tensor) -> torch.Tensor:
            x = x * 1
            dist.all_reduce(x)
            return x + 1

        for function in (functional_sum, plain_sum):
            compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
            assert compiled(torch.ones(2)).tolist() == [4.0, 4.0]

    def test_between_graphs(self) -> None:
        """An asynchronous collective runs as it is, also where it breaks the graph."""
        graphs: list[Any] = []

        def backend(graph: Any, inputs: Any) -> Any:
            graphs.append(graph)
            return graph

        @torch.compile(backend=backend)  # type: ignore[untyped-decorator]  # torch is not followed
        def sums(x: torch.Tensor) -> torch.Tensor:
            x = x * 1
            work = dist.all_reduce(x, async_op=True)
            work.wait()
            return x + 1

        assert sums(torch.ones(2)).tolist() == [4.0, 4.0]
        assert len(graphs) == (2 if torch_at_least("2.12") else 1), graphs


class CollectivesOnThreads(Collectives, Compiled, Threaded):
    """Runs the bodies on torch's threaded process group."""

    def test_refused_call(self) -> None:
        """A call whose arguments are refused is no collective, on one rank or on all."""
        for refusing in ((0,), (1, 2), (0, 1, 2)):
            if self.rank in refusing:
                with self.assertRaises(NotImplementedError):
                    dist.reduce_scatter(torch.ones(1), [torch.ones(1)] * 3, op=dist.ReduceOp.MAX)
            value = torch.tensor([float(self.rank)])
            dist.broadcast(value, 1)
            self.check(value, [1.0])


class OnGloo(Collectives, Compiled, MultiProcessTestCase):
    """Runs the bodies on gloo, with processes or threads as HARNESS_RANKS says."""

    world_size = 3
    rank_modes = ("fresh", "threads")

    def setUpRank(self) -> None:
        store = dist.FileStore(self.file_name, 3)
        dist.init_process_group("gloo", rank=self.rank, world_size=3, store=store)

    def test_fails(self) -> None:
        """Rank 1 fails while its peers wait in gloo's barrier."""
        if self.rank == 1:
            self.fail("rank 1 will not play")
        dist.barrier()

    def test_exits_as_announced(self) -> None:
        """Each rank ends with a return code that the test may announce."""
        raise SystemExit(7)

    def test_own_class(self) -> None:
        """What a rank sets on its class is its own, or the last rank's if ranks are processes."""
        type(self).mark = self.rank  # type: ignore[attr-defined]  # made here
        dist.barrier()
        self.assertEqual(type(self).mark, self.rank)  # type: ignore[attr-defined]  # made above
        self.assertEqual(self.id().rsplit(".", 2)[1:], ["OnGloo", "test_own_class"])


class FaultsOnGloo(DistributedTestBase):
    """Rank 1 does something else than rank 0; of some other sizes gloo would end the process of both."""

    world_size = 2
    rank_modes: tuple[str, ...] = ("threads",)

    def setUpRank(self) -> None:
        super().setUpRank()
        self.create_pg("cpu")

    def test_reduces(self) -> None:
        """Reduces more elements on rank 1."""
        dist.all_reduce(torch.ones(2 + self.rank))

    def test_sends(self) -> None:
        """Sends more elements than the other rank receives."""
        if self.rank == 1:
            dist.send(torch.ones(3), 0)
        else:
            dist.recv(torch.ones(2), 1)

    def test_reduces_functionally(self) -> None:
        """Reduces more elements on rank 1, by a functional collective."""
        functional.all_reduce(torch.ones(2 + self.rank), "sum", dist.group.WORLD) + 0

    def test_functional_operations(self) -> None:
        """Takes the maximum on rank 1, and the sum on rank 0."""
        functional.all_reduce(torch.ones(2), "max" if self.rank else "sum", dist.group.WORLD) + 0

    def test_functional_left_out(self) -> None:
        """Reduces nothing on rank 1."""
        if self.rank == 0:
            functional.all_reduce(torch.ones(2), "sum", dist.group.WORLD) + 0

    def test_backward_left_out(self) -> None:
        """Has no backward pass on rank 1, for which rank 0 waits in DDP's reducer."""
        model = DistributedDataParallel(nn.Linear(2, 2))
        loss = model(torch.ones(1, 2)).sum()
        if self.rank == 0:
            loss.backward()

    def test_placements(self) -> None:
        """Redistributes a tensor otherwise on rank 1, which needs no communication."""
        mesh = init_device_mesh("cpu", (2,))
        tensor = distribute_tensor(torch.ones(4, 4), mesh, [Replicate()])
        tensor.redistribute(mesh, [Shard(self.rank)])
