"""Parts of PowerSGD, of which a trained model does not show all: bases, what is worth it, statistics.

No ranks.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power_sgd
from torch.testing._internal.distributed.fake_pg import FakeStore

from harness import TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)


class PowerSgdTest(TestCase):
    def state(self, **options):
        return power_sgd.PowerSGDState(None, **options)

    def test_bases(self):
        """Columns of length one, each at right angles to the others, that span what they spanned."""
        for rank, dtype in ((1, torch.float32), (2, torch.float32), (3, torch.float64), (3, torch.bfloat16)):
            torch.manual_seed(rank)
            given = torch.randn(2, 5, rank, dtype=dtype)
            found = given.clone()
            power_sgd._orthogonalize(found)
            spanned = {"atol": 0.1 if rank == 3 else 1e-5, "rtol": 1e-5}
            close = {"atol": 0.03, "rtol": 0.03} if dtype is torch.bfloat16 else {"atol": 1e-5, "rtol": 1e-5}
            with self.subTest(rank=rank, dtype=dtype):
                unit = torch.eye(rank, dtype=dtype).expand(2, rank, rank)
                self.assertEqual(found.mT @ found, unit, **close)
                self.assertEqual(found @ (found.mT @ given), given, **spanned)

    def test_bases_by_method(self):
        """Factorized from three columns on, in the precisions in which that can be done."""
        for rank, dtype, factorized in (
            (2, torch.float32, False),
            (3, torch.float32, True),
            (3, torch.float64, True),
            (3, torch.bfloat16, False),
            (3, torch.float16, False),
        ):
            with mock.patch.object(torch.linalg, "qr", wraps=torch.linalg.qr) as qr:
                power_sgd._orthogonalize(torch.randn(1, 4, rank).to(dtype))
            self.assertEqual(qr.called, factorized, (rank, dtype))
        with self.assertRaises(AssertionError):
            power_sgd._orthogonalize(torch.randn(1, 2, 3))

    def test_bases_of_nothing(self):
        """What is added to the length keeps columns of zeros from becoming no numbers."""
        columns = torch.zeros(1, 4, 2)
        columns[:, 0, 1] = 3
        power_sgd._orthogonalize(columns, epsilon=1e-3)
        self.assertEqual(columns[0, :, 0], torch.zeros(4))
        self.assertEqual(columns[0, 0, 1].item(), 3 / 3.001, rtol=1e-6, atol=1e-6)

    def test_what_is_worth_it(self):
        for sizes, expected in (
            ((10, 10, 1, 2), (True, 100, 20)),
            ((10, 10, 1, 5), (False, 100, 20)),  # as much is not more
            ((10, 10, 2, 2), (True, 100, 40)),
            ((3, 4, 2, 1), (False, 12, 14)),
        ):
            self.assertEqual(power_sgd._should_compress(*sizes), expected)

    def test_statistics(self):
        state = self.state()
        self.assertEqual(state.compression_stats(), (0, 0, 0))
        state.total_numel_before_compression, state.total_numel_after_compression = 30, 12
        self.assertEqual(state.compression_stats(), (2.5, 30, 12))

    def test_when_it_reports(self):
        """With the last bucket, each so many iterations; at least each."""
        last, other = mock.Mock(), mock.Mock()
        last.is_last.return_value, other.is_last.return_value = True, False
        for every, reported in ((3, [0, 3, 6]), (1, [*range(8)]), (0, [*range(8)])):
            state, found = self.state(compression_stats_logging_frequency=every), []
            for step in range(8):
                state.iter = step
                for bucket in (other, last):
                    with mock.patch.object(power_sgd.logger, "info") as said:
                        power_sgd._report_compression_stats(bucket, state)
                    if said.called:
                        found.append(step)
                        self.assertIs(bucket, last)
            self.assertEqual(found, reported)

    def test_iterations(self):
        """They are counted with the last bucket."""
        state = self.state(start_powerSGD_iter=2)
        for last, count in ((False, 0), (True, 1), (False, 1), (True, 2)):
            bucket = mock.Mock()
            bucket.is_last.return_value = last
            state.maybe_increase_iter(bucket)
            self.assertEqual(state.iter, count)

    def test_pickled(self):
        """All but the group, which is that of all ranks again."""
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
        self.addCleanup(dist.destroy_process_group)
        state = self.state(matrix_approximation_rank=3, start_powerSGD_iter=7, min_compression_rate=4)
        state.error_dict[1] = torch.ones(2)
        state.iter = 9
        again = pickle.loads(pickle.dumps(state))
        self.assertIs(again.process_group, dist.group.WORLD)
        for name in state.__slots__:
            if name not in ("process_group", "rng"):
                self.assertEqual(getattr(again, name), getattr(state, name), name)
        self.assertEqual(again.rng.randint(1000), state.rng.randint(1000))

    def test_defaults(self):
        state = self.state()
        for name, value in {
            "matrix_approximation_rank": 1,
            "start_powerSGD_iter": 1000,
            "min_compression_rate": 2,
            "use_error_feedback": True,
            "warm_start": True,
            "orthogonalization_epsilon": 0,
            "compression_stats_logging_frequency": 10000,
            "batch_tensors_with_same_shape": False,
            "iter": 0,
            "next_stats_report": 0,
        }.items():
            self.assertEqual(getattr(state, name), value, name)


if __name__ == "__main__":
    run_tests()
