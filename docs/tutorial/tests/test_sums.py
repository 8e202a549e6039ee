import torch
import torch.distributed as dist

from harness import DistributedTestBase, run_tests


class Sums(DistributedTestBase):
    world_size = 2

    def test_sum(self):
        self.create_pg("cpu")
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor)
        self.assertEqual(tensor, torch.tensor([3.0]))


if __name__ == "__main__":
    run_tests()
