"""The tests that torch's wheel carries in ``distributed_test.py``, on ranks that are spawned for each test.

Needs BACKEND and WORLD_SIZE in the environment, as the wheel's module does; gloo and 2 where they are unset.
"""

# mypy: ignore-errors
# Untyped, as the files are that this one stands for.
import os

os.environ.setdefault("BACKEND", "gloo")
os.environ.setdefault("WORLD_SIZE", "2")

from torch.testing._internal.common_utils import run_tests
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend


class TestDistBackendWithSpawn(TestDistBackend, DistributedTest._DistTestBase):
    """All of them."""

    def setUp(self):
        super().setUp()
        self._spawn_processes()


if __name__ == "__main__":
    run_tests()
