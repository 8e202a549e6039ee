"""The tests that torch's wheel has in ``distributed_test.py``, on ranks that are spawned for each test.

Needs BACKEND and WORLD_SIZE in the environment, as the wheel's module does; the defaults are gloo and 2.
"""

# mypy: ignore-errors
# Untyped, like the upstream files for which it stands.
import os

os.environ.setdefault("BACKEND", "gloo")
os.environ.setdefault("WORLD_SIZE", "2")

from torch.testing._internal.common_utils import run_tests
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend


class TestDistBackendWithSpawn(TestDistBackend, DistributedTest._DistTestBase):
    """All of the wheel's tests."""

    def setUp(self):
        super().setUp()
        self._spawn_processes()


if __name__ == "__main__":
    run_tests()
