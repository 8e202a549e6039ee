"""Training with rare averages of parameters: averagers, the post-local SGD optimizer, and its DDP hook."""

from __future__ import annotations

import copy
import sys
import warnings
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState,
    post_localSGD_hook,
)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import (
    HierarchicalModelAverager,
)
from torch.distributed.optim import PostLocalSGDOptimizer

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.c10d.base import C10dTestCase
from suites.c10d.ddp_base import ROUNDED, DdpTestCase
from suites.c10d.ddp_models import Net
from suites.c10d.inputs import EXACTLY

STEPS = 20
PERIOD = 4
WARMUP = 10
LEARNING_RATE = 0.05


def of_step(rank, step):
    """Return what a rank's parameters hold before the averager sees them: another number each time."""
    return float((rank + 1) * (step + 1))


class AveragersTest(C10dTestCase):
    """Four ranks whose parameters differ at each step; who is averaged with whom, and when."""

    world_size = 4

    def check_steps(self, averager, groups_at, wrap=list):
        """Let an averager see ``STEPS`` steps; ``groups_at(step)`` are those that this rank is averaged with.

        ``wrap`` makes of a list of parameters what the averager is given.
        """
        parameters = [nn.Parameter(torch.empty(2, 3)), nn.Parameter(torch.empty(5))]
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)  # one without a gradient is not averaged
        for step in range(STEPS):
            for parameter in parameters:
                parameter.data.fill_(of_step(self.rank, step))
            self.assertEqual(averager.step, step)
            averager.average_parameters(wrap(parameters))
            members = groups_at(step)
            expected = sum(of_step(member, step) for member in members) / len(members)
            for parameter in parameters:
                self.assertEqual(parameter.data, torch.full_like(parameter, expected), **EXACTLY)

    def everybody_every(self, period, warmup):
        """Return ``groups_at`` of an average over all ranks, every ``period`` steps after the warm-up."""
        return lambda step: (
            range(self.world_size) if step >= warmup and (step - warmup) % period == 0 else (self.rank,)
        )

    def test_periodic_model_averager(self):
        for warmup in (0, WARMUP, 19):
            averager = PeriodicModelAverager(PERIOD, warmup_steps=warmup)
            self.check_steps(averager, self.everybody_every(PERIOD, warmup))

    def test_periodic_model_averager_on_a_sub_group(self):
        groups = ((0, 2), (1, 3))
        made = [dist.new_group(list(group)) for group in groups]
        mine = self.rank % 2
        averager = PeriodicModelAverager(PERIOD, process_group=made[mine])
        self.check_steps(averager, lambda step: groups[mine] if step % PERIOD == 0 else (self.rank,))

    def test_periodic_model_averager_param_group(self):
        averager = PeriodicModelAverager(PERIOD, warmup_steps=WARMUP)
        self.check_steps(
            averager,
            self.everybody_every(PERIOD, WARMUP),
            wrap=lambda parameters: [{"params": [p], "lr": 0.1} for p in parameters],
        )

    def test_parameters_without_a_gradient_are_left_alone(self):
        averager = PeriodicModelAverager(PERIOD)
        with_gradient, without = (nn.Parameter(torch.full((2,), float(self.rank))) for _ in range(2))
        with_gradient.grad = torch.zeros(2)
        averager.average_parameters(iter([with_gradient, without]))
        self.assertEqual(with_gradient.data, torch.full((2,), 1.5), **EXACTLY)
        self.assertEqual(without.data, torch.full((2,), float(self.rank)), **EXACTLY)

    def test_arguments_of_the_periodic_averager(self):
        with self.assertRaisesRegex(ValueError, "warmup_steps.*non-negative"):
            PeriodicModelAverager(PERIOD, warmup_steps=-1)
        with self.assertRaisesRegex(ValueError, "period.*positive"):
            PeriodicModelAverager(0)
        with self.assertWarnsRegex(UserWarning, "When period is 1"):
            PeriodicModelAverager(1)

    def test_1_level_hierarchical_model_averager_equivalent_to_periodic_model_averager(self):
        """Its periods are counted from step 0, not from the end of the warm-up as the periodic one's are."""
        averager = HierarchicalModelAverager({PERIOD: self.world_size}, warmup_steps=WARMUP)
        self.check_steps(
            averager,
            lambda step: range(4) if step >= WARMUP and step % PERIOD == 0 else (self.rank,),
        )

    def test_hierarchical_model_averager(self):
        """Pairs every second step, everybody every fourth: the wider average replaces the narrower one."""
        averager = HierarchicalModelAverager({2: 2, 4: 4}, warmup_steps=3)
        pair = (0, 1) if self.rank < 2 else (2, 3)

        def groups_at(step):
            if step < 3 or step % 2:
                return (self.rank,)
            return range(4) if step % 4 == 0 else pair

        self.assertEqual(dist.get_process_group_ranks(averager.period_process_group_dict[2]), list(pair))
        self.check_steps(averager, groups_at)

    def test_arguments_of_the_hierarchical_averager(self):
        table = {
            "must not be empty": {},
            "minimum period.*positive": {0: 4},
            "last value.*2.*must be equal to the size.*4": {2: 2},
        }
        for message, periods in table.items():
            with self.subTest(periods=periods), self.assertRaisesRegex(ValueError, message):
                HierarchicalModelAverager(periods)


class PostLocalSGDTest(DdpTestCase):
    """Gradients averaged in the warm-up, parameters now and then afterwards; two ranks, rows of their own.

    The reference is played in each rank: both ranks' models side by side, averaged by hand.
    """

    def rows(self):
        return torch.randn(8, 2).to(self.device), torch.randn(8, 4).to(self.device)

    def gradients(self, models, rows, wanted):
        """Give each rank's reference model the gradient of its rank's rows."""
        for model, part, want in zip(models, rows.chunk(2), wanted.chunk(2), strict=True):
            model.zero_grad()
            (model(part) - want).square().mean().backward()

    def average(self, models, tensor_of):
        """Replace a tensor of each reference model's parameters by their mean, parameter by parameter."""
        for parameters in zip(*(model.parameters() for model in models), strict=True):
            mean = torch.stack([tensor_of(p) for p in parameters]).mean(0)
            for parameter in parameters:
                tensor_of(parameter).copy_(mean)

    def check_training(self, averager_of, *, start, averaged_at, view=False):
        """Train with the hook and the optimizer, and compare with two models that are averaged by hand.

        Gradients are averaged before step ``start``; ``averaged_at(step)`` is when parameters are.
        """
        model = Net().to(self.device)
        references = [copy.deepcopy(model) for _ in range(2)]
        plain = [torch.optim.SGD(m.parameters(), lr=LEARNING_RATE) for m in references]
        ddp = self.wrap(model, gradient_as_bucket_view=view)
        # No group of one's own for the time after the warm-up: gradients are not averaged at all then.
        state = PostLocalSGDState(
            process_group=None, subgroup=None, start_localSGD_iter=start, post_local_gradient_allreduce=False
        )
        ddp.register_comm_hook(state, post_localSGD_hook)
        inner = torch.optim.SGD(ddp.parameters(), lr=LEARNING_RATE)
        optimizer = PostLocalSGDOptimizer(inner, averager_of())
        for step in range(STEPS // 2):
            rows, wanted = self.rows()
            optimizer.zero_grad()
            (ddp(self.mine(rows)) - self.mine(wanted)).square().mean().backward()
            self.gradients(references, rows, wanted)
            if step < start:
                self.average(references, lambda p: p.grad)
            optimizer.step()
            for one in plain:
                one.step()
            if averaged_at(step):
                self.average(references, lambda p: p.data)
            self.same_parameters(references[self.rank], ddp)
        # The reference took the ranks apart, so equality says something.
        self.assertNotEqual(references[0].fc1.weight, references[1].fc1.weight, **ROUNDED)
        return optimizer

    def test_post_localSGD_optimizer_parity(self):
        self.check_training(
            lambda: PeriodicModelAverager(3, warmup_steps=2),
            start=2,
            averaged_at=lambda step: step >= 2 and (step - 2) % 3 == 0,
        )

    def test_post_localSGD_optimizer_parity_grad_is_view(self):
        self.check_training(
            lambda: PeriodicModelAverager(3, warmup_steps=2),
            start=2,
            averaged_at=lambda step: step >= 2 and (step - 2) % 3 == 0,
            view=True,
        )

    def test_post_localSGD_optimizer_parity_with_hierarchical_sgd(self):
        self.check_training(
            lambda: HierarchicalModelAverager({4: 2}, warmup_steps=2),
            start=2,
            averaged_at=lambda step: step >= 2 and step % 4 == 0,
        )

    def test_post_localSGD_optimizer_step_reload(self):
        """The averager's step is in the optimizer's state; without it counting starts at 0, and warns."""
        optimizer = self.check_training(
            lambda: PeriodicModelAverager(3, warmup_steps=2),
            start=2,
            averaged_at=lambda step: step >= 2 and (step - 2) % 3 == 0,
        )
        state = optimizer.state_dict()
        self.assertEqual(state["step"], STEPS // 2)
        other = PostLocalSGDOptimizer(
            torch.optim.SGD(Net().parameters(), lr=LEARNING_RATE), PeriodicModelAverager(3, warmup_steps=2)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            other.load_state_dict(copy.deepcopy(state))
        self.assertEqual(other.averager.step, STEPS // 2)
        del state["step"]
        with self.assertWarnsRegex(UserWarning, "Loaded state dict does not contain a step counter"):
            other.load_state_dict(state)
        self.assertEqual(other.averager.step, 0)


if __name__ == "__main__":
    run_tests()
