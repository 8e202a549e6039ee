"""DDP after the first step: buffers of later forwards, nested and broken regions, what hooks carry over.

What a first forward and backward does right a second may not, so each check is made again and again, with
other numbers on each rank and in each step.
"""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.functional import mse_loss

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.c10d.ddp_base import DdpTestCase
from suites.c10d.ddp_models import Net

EXACT = {"rtol": 0, "atol": 0}
#: What products of 12x12 matrices may lose in float32.
FACTORED = {"rtol": 1e-4, "atol": 1e-5}


def loss(model, rows):
    """Return the mean over rows, so that averages over equal numbers of rows are averages over all."""
    return model(rows).square().mean()


class LaterBuffersTest(DdpTestCase):
    """Buffers that the ranks change after each step."""

    def model(self):
        """Return a model with a buffer of each of two dtypes, which its forward leaves alone."""
        model = nn.Linear(3, 2)
        model.register_buffer("real", torch.zeros(2))
        model.register_buffer("whole", torch.zeros(3, dtype=torch.int64))
        return model.to(self.device)

    def change(self, ddp, step):
        """Give the buffers numbers that tell the rank and the step."""
        ddp.module.real.fill_(10 * step + self.rank)
        ddp.module.whole.fill_(100 * step + self.rank)

    def check_buffers(self, ddp, step, rank):
        self.assertEqual(ddp.module.real, torch.full((2,), 10.0 * step + rank), f"step {step}", **EXACT)
        self.assertEqual(ddp.module.whole, torch.full((3,), 100 * step + rank), f"step {step}", **EXACT)

    def test_each_forward_broadcasts(self):
        ddp = self.wrap(self.model())
        for step in range(4):
            self.change(ddp, step)
            loss(ddp, self.draw(2, 3)).backward()
            self.check_buffers(ddp, step, rank=0)

    def test_no_forward_broadcasts_without(self):
        ddp = self.wrap(self.model(), broadcast_buffers=False)
        for step in range(3):
            self.change(ddp, step)
            loss(ddp, self.draw(2, 3)).backward()
            self.check_buffers(ddp, step, rank=self.rank)

    def test_evaluations(self):
        """One after a reduced step broadcasts; what follows it does not, until a step is reduced again."""
        ddp = self.wrap(self.model())
        for step, (trains, expected) in enumerate(((0, 0), (0, self.rank), (1, self.rank), (1, 0), (0, 0))):
            self.change(ddp, step)
            if trains:
                loss(ddp, self.draw(2, 3)).backward()
            else:
                with torch.no_grad():
                    ddp(self.draw(2, 3))
            self.check_buffers(ddp, step, rank=expected)

    def test_forwards_after_one_that_was_not_synchronized(self):
        """Ranks whose last step was not reduced keep their buffers in the next forward, and only in that."""
        ddp = self.wrap(self.model())
        expected = (0, self.rank, self.rank, 0)
        for step, synchronized in enumerate((False, False, True, True)):
            self.change(ddp, step)
            if synchronized:
                loss(ddp, self.draw(2, 3)).backward()
            else:
                with ddp.no_sync():
                    loss(ddp, self.draw(2, 3)).backward()
            self.check_buffers(ddp, step, rank=expected[step])


class LaterStepsTest(DdpTestCase):
    """Regions without synchronization, one in the other or left by an exception; exceptions elsewhere."""

    def pair(self, **options):
        model = Net().to(self.device)
        return copy.deepcopy(model), self.wrap(model, **options)

    def rows(self):
        return self.draw(4 * self.world_size, 2)

    def test_no_sync_inside_of_itself(self):
        plain, ddp = self.pair()
        alone = copy.deepcopy(plain)
        for _ in range(2):
            for each in (plain, ddp, alone):
                each.zero_grad()
            with ddp.no_sync():
                with ddp.no_sync():
                    self.backward_beside(plain, ddp, first := self.rows(), loss)
                # The outer region goes on: nothing is exchanged.
                self.backward_beside(plain, ddp, second := self.rows(), loss)
            for part in (first, second):
                loss(alone, self.mine(part)).backward()
            self.same_gradients(alone, ddp)
            self.backward_beside(plain, ddp, self.rows(), loss)
            self.same_gradients(plain, ddp)

    def test_no_sync_left_by_an_exception(self):
        plain, ddp = self.pair()
        for _ in range(2):
            with self.assertRaises(ZeroDivisionError), ddp.no_sync():
                raise ZeroDivisionError
            for each in (plain, ddp):
                each.zero_grad()
            self.backward_beside(plain, ddp, self.rows(), loss)
            self.same_gradients(plain, ddp)

    def test_a_forward_that_raises(self):
        """It is as if it had not been called, on the rank that calls it too."""
        plain, ddp = self.pair()
        for _ in range(2):
            with self.assertRaisesRegex(RuntimeError, "mat1 and mat2|shapes cannot be multiplied"):
                ddp(self.draw(2, 3))
            for each in (plain, ddp):
                each.zero_grad()
            self.backward_beside(plain, ddp, self.rows(), loss)
            self.same_gradients(plain, ddp)

    def test_forwards_whose_outputs_are_not_used(self):
        """Each is followed by another one; what is asked of autograd afterwards is reduced."""
        plain, ddp = self.pair()
        for _ in range(3):
            for each in (plain, ddp):
                each.zero_grad()
            ddp(self.mine(self.rows()))
            self.backward_beside(plain, ddp, self.rows(), loss)
            self.same_gradients(plain, ddp)

    def test_gradients_add_up(self):
        for view in (False, True):
            plain, ddp = self.pair(gradient_as_bucket_view=view)
            for _ in range(3):
                self.backward_beside(plain, ddp, self.rows(), loss)
                self.same_gradients(plain, ddp)

    def test_parameters_that_are_frozen_later(self):
        """A parameter that is frozen between steps, and is not any more, follows its flag."""
        plain, ddp = self.pair(find_unused_parameters=True)
        for frozen in (False, True, False):
            for each in (plain, ddp.module):
                each.fc1.weight.requires_grad_(not frozen)
                each.zero_grad()
            self.backward_beside(plain, ddp, self.rows(), loss)
            self.assertIs(ddp.module.fc1.weight.grad is None, frozen)
            self.same_gradients(plain, ddp)

    def test_join_that_is_off(self):
        """Inputs are even, so nothing has to be shadowed; a second region is as the first."""
        plain, ddp = self.pair()
        for enable in (False, True, False):
            with ddp.join(enable=enable):
                for each in (plain, ddp):
                    each.zero_grad()
                self.backward_beside(plain, ddp, self.rows(), loss)
                self.same_gradients(plain, ddp)


class PowerSgdStepsTest(DdpTestCase):
    """What PowerSGD carries from step to step: the error, and where the last step's factors point."""

    def trained(self, steps, **options):
        """Return what DDP made of each step's gradients, their true averages, and the hook's state."""
        model = nn.Linear(12, 12, bias=False).to(self.device)
        ddp = self.wrap(model)
        self.skip_where_powersgd_needs_a_gpu()
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=1, **options
        )
        ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        rows = self.draw(2 * self.world_size, 24)
        found, true = [], []
        for _ in range(steps):
            for each in (model, ddp):
                each.zero_grad()
            self.backward_beside(
                model, ddp, rows, lambda one, part: mse_loss(one(part[:, :12]), part[:, 12:])
            )
            found.append(ddp.module.weight.grad.clone())
            true.append(model.weight.grad.clone())
        for step in range(2):
            self.assertEqual(found[step], true[step], "before the start", **FACTORED)
        return found, true, state

    def test_what_is_lost_comes_with_the_next_steps(self):
        """All that has been applied, and the mean of what the ranks still keep, are all gradients so far."""
        for warm in (True, False):
            found, true, state = self.trained(7, warm_start=warm)
            (error,) = state.error_dict.values()
            kept = error.clone()
            dist.all_reduce(kept)
            kept = kept.flatten()[:144].reshape(12, 12) / self.world_size
            with self.subTest(warm=warm):
                self.assertGreater(kept.abs().max().item(), 1e-3)
                self.assertEqual(sum(found) + kept, sum(true), **FACTORED)

    def test_without_feedback_it_stays_lost(self):
        found, true, state = self.trained(6, use_error_feedback=False)
        self.assertEqual(state.error_dict, {})
        # Gradients are the same in each step: the best matrix of rank one is all that ever comes.
        u, s, v = torch.linalg.svd(true[-1])
        best = s[0] * u[:, :1] @ v[:1]
        self.assertLess((found[-1] - best).norm().item(), 0.2 * (true[-1] - best).norm().item() + 1e-3)
        self.assertGreater((true[-1] - found[-1]).norm().item(), 0.5 * (true[-1] - best).norm().item())

    def test_factors_of_the_last_step_are_where_the_next_begins(self):
        """With a warm start the same gradients come to the same matrix; without, each step draws anew."""
        moved = {}
        for warm in (True, False):
            found, _, _ = self.trained(10, use_error_feedback=False, warm_start=warm)
            moved[warm] = (found[-1] - found[-2]).norm().item()
        self.assertLess(moved[True], 0.1 * moved[False])

    def test_steps_before_the_start_are_exact(self):
        found, true, state = self.trained(3)  # which compares the two before
        self.assertNotEqual(found[2], true[2], **FACTORED)
        self.assertEqual(state.iter, 3)

    def test_state_by_pickle(self):
        """A state that is loaded goes on where it was; its group is the default one, as a warning says."""
        _, _, state = self.trained(4)
        with self.assertLogs("torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook", "WARNING"):
            again = pickle.loads(pickle.dumps(state))
        self.assertEqual((again.iter, again.start_powerSGD_iter, again.use_error_feedback), (4, 2, True))
        self.assertEqual(list(again.error_dict), list(state.error_dict))
        for key, value in state.error_dict.items():
            self.assertEqual(again.error_dict[key], value, **EXACT)
        self.assertIs(again.process_group, dist.group.WORLD)


if __name__ == "__main__":
    run_tests()
