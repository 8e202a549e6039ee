"""One test for each way in which the ranks of a ``MultiProcessTestCase`` can end, in upstream's style."""

# mypy: ignore-errors
# Untyped, like the upstream files for which it stands.
import os
import signal
import sys
import threading
import traceback
import unittest

import torch
import torch.distributed as dist
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_distributed import (
    TEST_SKIPS,
    DistributedTestBase,
    MultiProcessTestCase,
    skip_if_lt_x_gpu,
    skip_if_odd_worldsize,
)
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    subtest,
)

os.environ.setdefault("BACKEND", "gloo")
CODE = 42


class TwoRanks(MultiProcessTestCase):
    """Two ranks, started by setUp."""

    @property
    def world_size(self):
        return 2

    def setUp(self):
        super().setUp()
        self._spawn_processes()


class EndsTest(TwoRanks):
    def test_passes(self):
        self.assertEqual(torch.ones(2), torch.tensor([1.0, 1.0]))
        self.assertIn(self.rank, (0, 1))
        self.assertTrue(os.path.exists(self.file_name))

    def test_fails_on_rank_1(self):
        self.assertEqual(self.rank, 0)

    def test_raises(self):
        raise ValueError("raised in every rank")

    def test_raises_on_rank_0(self):
        if self.rank == 0:
            raise ValueError("raised in one rank")

    async def test_coroutine(self):
        self.fail("nobody awaits it")

    def test_crashes(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    def test_rank_1_dies(self):
        if self.rank == 1:
            os._exit(3)

    def test_leaves_content(self):
        sys.exit(0)

    def test_leaves_content_and_fails_in_a_cleanup(self):
        self.addCleanup(self.fail, "in a cleanup")
        sys.exit(0)

    def test_vanishes(self):
        os._exit(0)

    def test_rank_1_vanishes(self):
        if self.rank == 1:
            os._exit(0)

    def test_skips(self):
        raise unittest.SkipTest("a reason of its own")

    def test_skips_by_method(self):
        self.skipTest("another reason")

    @skip_if_lt_x_gpu(8)
    def test_skips_by_decorator(self):
        self.fail("there are no eight GPUs")

    @unittest.skip("in the parent already")
    def test_skips_in_parent(self):
        self.fail("not reached")

    def test_skips_by_exit_code(self):
        sys.exit(TEST_SKIPS["importerror"].exit_code)

    def test_skips_by_hard_exit(self):
        os._exit(TEST_SKIPS["no_cuda"].exit_code)

    def test_rank_1_skips_alone(self):
        if self.rank == 1:
            sys.exit(TEST_SKIPS["generic"].exit_code)

    @unittest.expectedFailure
    def test_expected_failure(self):
        self.fail("as expected")

    @unittest.expectedFailure
    def test_unexpected_success(self):
        pass

    def test_subtests(self):
        for i in range(3):
            with self.subTest(i=i):
                self.assertLess(i, 2)

    def test_same_numbers(self):
        numbers = torch.rand(3)
        torch.manual_seed(1234)
        self.assertEqual(numbers, torch.rand(3))

    def test_parents_invariants_stay_there(self):
        self.assertFalse(torch.sparse.check_sparse_tensor_invariants.is_enabled())


ANNOUNCED = {"test_announced_signal": -signal.SIGABRT, "test_unannounced": 0}


class ReturnCodesTest(TwoRanks):
    def setUp(self):
        super().setUp()
        own = getattr(self, self._testMethodName).__wrapped__
        if self._testMethodName == "test_anything_goes":
            self.skip_return_code_checks = [own]
        else:
            self.special_return_code_checks = {own: ANNOUNCED.get(self._testMethodName, CODE)}

    def test_announced(self):
        sys.exit(CODE)

    def test_announced_signal(self):
        os.abort()

    def test_announced_and_missed(self):
        pass

    def test_announced_and_skipped(self):
        sys.exit(TEST_SKIPS["generic"].exit_code)

    def test_anything_goes(self):
        os._exit(99)

    def test_unannounced(self):
        sys.exit(CODE)


class RepeatedRunTest(TwoRanks):
    """Repeats upstream's ``run_test``, as projects do that want something before each test."""

    def run_test(self, test_name, parent_pipe):
        ours, theirs = torch.multiprocessing.Pipe(duplex=False)
        listener = threading.Thread(
            target=MultiProcessTestCase._event_listener, args=(parent_pipe, ours, self.rank), daemon=True
        )
        listener.start()
        self.prepared = True
        try:
            getattr(self, test_name)()
        except unittest.SkipTest:
            sys.exit(TEST_SKIPS["generic"].exit_code)
        except Exception:  # noqa: BLE001 - as upstream's
            parent_pipe.send(traceback.format_exc())
            sys.exit(MultiProcessTestCase.TEST_ERROR_EXIT_CODE)
        finally:
            theirs.send(None)
            listener.join()
            parent_pipe.close()

    def test_passes(self):
        self.assertTrue(self.prepared)

    def test_fails_on_rank_1(self):
        self.assertEqual(self.rank, 0)

    def test_skips(self):
        self.skipTest("for this reason")

    @unittest.expectedFailure
    def test_expected_failure(self):
        self.fail("as expected")


class OwnRunTest(TwoRanks):
    """A ``_run`` that makes a group around the test, like the wheel's ``TestDistBackend``."""

    @property
    def world_size(self):
        return "2"

    @property
    def destroy_pg_upon_exit(self):
        return False

    @classmethod
    def _run(cls, rank, test_name, file_name, pipe, **kwargs):
        if test_name == "test_skips_before_running":
            sys.exit(TEST_SKIPS["backend_unavailable"].exit_code)
        self = cls(test_name)
        self.rank = rank
        self.file_name = file_name
        dist.init_process_group(
            "gloo", init_method=f"file://{file_name}", rank=rank, world_size=int(self.world_size)
        )
        dist.barrier()
        self.run_test(test_name, pipe)
        dist.barrier()
        dist.destroy_process_group()
        sys.exit(0)

    def test_all_reduce(self):
        value = torch.full((2,), float(self.rank + 1))
        dist.all_reduce(value)
        self.assertEqual(value, torch.full((2,), 3.0))

    def test_fails(self):
        self.assertEqual(dist.get_rank(), -1)

    def test_skips_before_running(self):
        self.fail("not reached")


class EnvironmentTest(TwoRanks):
    def setUp(self):
        os.environ["WORLD_SIZE"] = "2" if "odd" not in self._testMethodName else "3"
        super().setUp()

    @skip_if_odd_worldsize
    def test_even(self):
        self.assertEqual(os.environ["WORLD_SIZE"], "2")

    @skip_if_odd_worldsize
    def test_odd(self):
        self.fail("not reached")


@instantiate_parametrized_tests
class ParametrizedTest(TwoRanks):
    @parametrize("value", [1, subtest(2, name="two")])
    def test_value(self, value):
        self.assertLess(value, 2)


class DeviceTest(DistributedTestBase):
    @property
    def world_size(self):
        return 2

    def test_group(self, device):
        self.create_pg(device)
        value = torch.ones(2, device=device)
        dist.all_reduce(value)
        self.assertEqual(value, torch.full((2,), 2.0))


instantiate_device_type_tests(DeviceTest, globals(), only_for="cpu")


class NoRanksTest(MultiProcessTestCase):
    """Its setUp starts no ranks: upstream runs nothing and passes, and here the ranks start when needed."""

    @property
    def world_size(self):
        return 1

    def test_fails(self):
        self.fail("in the rank")


class OwnProcessesTest(MultiProcessTestCase):
    """Starts its processes by its own code, which no other way of starting ranks can replace."""

    @property
    def world_size(self):
        return 1

    def setUp(self):
        super().setUp()
        self.started = []
        self._spawn_processes()

    def _start_processes(self, proc):
        def noted(*args, **kwargs):
            self.started.append(kwargs["name"])
            return proc(*args, **kwargs)

        super()._start_processes(noted)

    def test_started(self):
        self.assertEqual(self.rank, 0)

    def tearDown(self):
        self.assertEqual(self.started, ["process 0"])
        super().tearDown()


class OwnSpawnTest(MultiProcessTestCase):
    """Chooses the kind of its processes itself, as the flight recorder's tests do."""

    @property
    def world_size(self):
        return 1

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def _spawn_processes(self):
        self._start_processes(torch.multiprocessing.get_context("spawn").Process)

    def test_started(self):
        self.assertEqual(self.rank, 0)

    def test_fails(self):
        self.fail("in the rank")


if __name__ == "__main__":
    run_tests()
