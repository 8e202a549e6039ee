"""Cases on the base classes that torch's wheel has for DTensor, FSDP, sharded tensors and rpc."""

# mypy: ignore-errors
# Untyped, like the upstream files for which it stands.
import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.common_distributed import MultiProcessTestCase
from torch.testing._internal.common_fsdp import FSDPTest, FSDPTestContinuous, FSDPTestMixin
from torch.testing._internal.common_utils import run_tests
from torch.testing._internal.dist_utils import dist_init, worker_name
from torch.testing._internal.distributed._shard.sharded_tensor import ShardedTensorTestBase
from torch.testing._internal.distributed._shard.sharded_tensor import with_comms as with_shards
from torch.testing._internal.distributed._tensor.common_dtensor import (
    DTensorContinuousTestBase,
    DTensorTestBase,
    LocalDTensorTestBase,
    with_comms,
)
from torch.testing._internal.distributed.rpc.tensorpipe_rpc_agent_test_fixture import (
    TensorPipeRpcAgentTestFixture,
)
from torch.testing._internal.distributed.rpc_utils import SpawnHelper


class MeshTest(DTensorTestBase):
    @property
    def world_size(self):
        return 2

    @with_comms
    def test_redistributes(self):
        mesh = self.build_device_mesh()
        whole = torch.arange(8.0).reshape(4, 2)
        sharded = distribute_tensor(whole, mesh, [Shard(0)])
        self.assertEqual(sharded.to_local(), whole.chunk(2)[self.rank])
        self.assertEqual(sharded.redistribute(mesh, [Replicate()]).to_local(), whole)

    @with_comms
    def test_fails(self):
        self.assertEqual(self.build_device_mesh().size(), 3)


class LocalMeshTest(LocalDTensorTestBase):
    @property
    def world_size(self):
        return 2

    def test_in_this_process(self):
        self.assertTrue(self.is_local_tensor_enabled)


class ContinuousMeshTest(DTensorContinuousTestBase):
    world_size = 2

    def test_mesh(self):
        whole = torch.arange(4.0)
        sharded = distribute_tensor(whole, self.build_device_mesh(), [Shard(0)])
        self.assertEqual(sharded.full_tensor(), whole)


class UnsizedMeshTest(DTensorContinuousTestBase):
    """One rank for each device, which is this base's default, with the device type as a property."""

    def test_mesh(self):
        self.assertEqual(self.build_device_mesh().size(), dist.get_world_size())


class FullyShardedTest(FSDPTest):
    """Runs where there are two accelerators, like upstream's own FSDP tests."""

    @property
    def world_size(self):
        return 2

    def test_group(self):
        self.assertEqual(dist.get_world_size(self.process_group), 2)


class FullyShardedOnCpuTest(FSDPTestMixin, MultiProcessTestCase):
    """Starts its ranks by the mixin's own code, which works on CPUs."""

    @property
    def world_size(self):
        return 2

    @property
    def init_method(self):
        return f"file://{self.file_name}"

    @property
    def destroy_pg_upon_exit(self):
        return False

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def test_shards_and_trains(self):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 4)
        expected = torch.nn.Linear(4, 4)
        expected.load_state_dict(model.state_dict())
        fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
        inputs = torch.arange(8.0).reshape(2, 4)
        model(inputs[self.rank : self.rank + 1]).sum().backward()
        (expected(inputs).sum() / 2).backward()
        self.assertEqual(model.weight.to_local().shape, (2, 4))
        self.assertEqual(model.weight.grad.full_tensor(), expected.weight.grad)

    def test_subtests(self):
        self.run_subtests({"size": [1, 3]}, self.check_size)

    def check_size(self, size):
        self.assertLess(size, 3)


class FullyShardedContinuousTest(FSDPTestContinuous):
    world_size = 2

    def test_group(self):
        self.assertEqual(dist.get_world_size(self.process_group), 2)


class ShardsTest(ShardedTensorTestBase):
    @property
    def world_size(self):
        return 2

    @with_shards(init_rpc=False, backend="gloo")
    def test_comms(self):
        self.assertEqual(dist.get_world_size(), 2)

    @with_shards
    def test_needs_gpus(self):
        self.fail("not reached without")


class AgentTest(TensorPipeRpcAgentTestFixture, SpawnHelper):
    @property
    def world_size(self):
        return 2

    @dist_init
    def test_adds_elsewhere(self):
        there = worker_name((self.rank + 1) % self.world_size)
        self.assertEqual(rpc.rpc_sync(there, torch.add, args=(torch.ones(2), 1)), torch.full((2,), 2.0))

    @dist_init
    def test_sends_itself(self):
        there = worker_name((self.rank + 1) % self.world_size)
        self.assertEqual(rpc.rpc_sync(there, self.ask, args=(2,)), self.rank + 2)

    def ask(self, value):
        self.assertIn(value, (1, 2))
        return self.rank + value

    @dist_init
    def test_fails_elsewhere(self):
        rpc.rpc_sync(worker_name((self.rank + 1) % self.world_size), int, args=("no number",))


if __name__ == "__main__":
    run_tests()
