"""What changes between two calls of a compiled step: learning rates, batches, modes, state, groups of ranks.

A graph holds what was constant when it was traced. Each test changes something and compares with DDP, which
holds nothing: the step has to take the change as an input, or to trace another graph, and the number of
graphs says which.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.optim import SGD, Adam, lr_scheduler

from harness import UsageError, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import train_step
from suites.spmd.train_step_base import ROUNDED, STEPS, TrainStepTestCase, sum_step, weighted_step


def rows():
    return [torch.randn(4, 10)]


def model():
    return nn.Sequential(nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 4))


def momentum_sgd(module):
    return SGD(module.parameters(), lr=0.1, momentum=0.9)


class SchedulesTest(TrainStepTestCase):
    """Learning-rate schedulers: one graph, whatever they do to the rate."""

    def check_scheduler(self, kind, graphs=1, **options):
        self.check_beside_ddp(
            model(),
            rows,
            momentum_sgd,
            between=lambda module, optimizer: kind(optimizer, **options).step,
            graphs=graphs,
        )

    def test_step(self):
        self.check_scheduler(lr_scheduler.StepLR, step_size=1, gamma=0.3)

    def test_cosine(self):
        self.check_scheduler(lr_scheduler.CosineAnnealingLR, T_max=4)

    def test_warm_up_from_zero(self):
        self.check_scheduler(lr_scheduler.LambdaLR, lr_lambda=lambda epoch: epoch / 2)

    def test_one_cycle_of_rate_and_momentum(self):
        # The momentum is part of a graph, so there is one graph a value of it.
        self.check_scheduler(lr_scheduler.OneCycleLR, graphs=STEPS, max_lr=0.5, total_steps=5)


class RetracedTest(TrainStepTestCase):
    """Changes that need another graph, and those that do not."""

    def test_other_hyper_parameters(self):
        def later(module, optimizer):
            decays = iter([0, 0.1, 0.1])
            return lambda: optimizer.param_groups[0].update(weight_decay=next(decays))

        self.check_beside_ddp(model(), rows, momentum_sgd, between=later, graphs=2)

    def test_training_and_evaluation(self):
        module = nn.Sequential(nn.Linear(10, 10), nn.BatchNorm1d(10), nn.Linear(10, 4))
        compiled = self.check_beside_ddp(
            module,
            rows,
            momentum_sgd,
            function=weighted_step,
            between=lambda module, optimizer: lambda: module.train(not module.training),
            graphs=2,
        )
        self.assertEqual(compiled.mod[1].num_batches_tracked, 3)

    def test_constant_of_a_part(self):
        module = nn.Sequential(nn.Linear(10, 10), nn.LeakyReLU(0.1), nn.Linear(10, 4))

        def steeper(module, optimizer):
            def change():
                module[1].negative_slope = 0.5

            return change

        self.check_beside_ddp(module, rows, momentum_sgd, between=steeper, graphs=2)

    def test_frozen_parameter(self):
        def freeze(module, optimizer):
            return lambda: module[0].weight.requires_grad_(False)

        self.check_beside_ddp(
            model(),
            rows,
            lambda module: SGD(module.parameters(), lr=0.1),
            between=freeze,
            graphs=2,
            all_reduces=3,
            ddp_options={"find_unused_parameters": True},
        )

    def test_batches_of_two_sizes(self):
        sizes = iter([4, 4, 2, 4])
        compiled = self.check_beside_ddp(
            model(), lambda: [torch.randn(next(sizes), 10)], momentum_sgd, graphs=2
        )
        self.assertIs(compiled.gm, compiled.graphs[0].gm)

    def test_batches_of_another_size_on_each_rank(self):
        self.check_beside_ddp(
            model(),
            lambda: [torch.randn(4 + self.rank, 10)],
            lambda module: SGD(module.parameters(), lr=0.1),
            warm_up=False,
        )

    def test_numbers_and_functions_among_the_arguments(self):
        def step(module, optimizer, x, scale, activation):
            loss = activation(module(x) * scale).sum()
            loss.backward()
            optimizer.step()
            return loss

        given = iter([(1.0, torch.tanh), (1.0, torch.tanh), (3.0, torch.tanh), (1.0, torch.sigmoid)])
        self.check_beside_ddp(
            model(), lambda: [*rows(), *next(given)], momentum_sgd, function=step, graphs=STEPS
        )

    def test_variable_around_the_function(self):
        scale = 1.0

        def step(module, optimizer, x):
            loss = (module(x) * scale).sum()
            loss.backward()
            optimizer.step()
            return loss

        def draw():
            nonlocal scale
            scale = float(1 + torch.initial_seed() % 2)  # 1 and 2 by turns
            return rows()

        self.check_beside_ddp(model(), draw, momentum_sgd, function=step, graphs=2)

    def test_precision_of_autocast(self):
        class PartlyCast(nn.Sequential):
            """Two layers, the first of which is computed as it is whatever the caller's autocast says."""

            def forward(self, x):
                with torch.autocast(x.device.type, enabled=False):
                    hidden = self[0](x)
                return self[1](hidden.tanh()).float()

        module = PartlyCast(nn.Linear(10, 10), nn.Linear(10, 4)).to(self.device)
        plain = copy.deepcopy(module)
        optimizers = [SGD(each.parameters(), lr=0.1) for each in (module, plain)]
        step, ddp = train_step.compile()(sum_step), self.summing_ddp(plain)
        for number, casts in enumerate((False, True, False)):
            (x,) = self.drawn(rows, seed=STEPS * self.rank + number)
            with torch.autocast(self.device_type, dtype=torch.bfloat16, enabled=casts):
                step(module, optimizers[0], x)
                sum_step(ddp, optimizers[1], x)
            ddp.zero_grad()
        self.assertEqual(len(step._compiled_obj.graphs), 2)
        self.assertEqual(dict(module.named_parameters()), dict(plain.named_parameters()), **ROUNDED)


class StateTest(TrainStepTestCase):
    """State that is exchanged between two steps: the graph stays, and works on what is there now."""

    def check_exchanged(self, exchange):
        self.check_beside_ddp(
            model(),
            rows,
            lambda module: Adam(module.parameters(), lr=0.1),
            between=lambda module, optimizer: lambda: exchange(module, optimizer),
        )

    def test_optimizer_state_loaded(self):
        def exchange(module, optimizer):
            saved = copy.deepcopy(optimizer.state_dict())
            for entries in saved["state"].values():
                entries["exp_avg"].mul_(-2)
            optimizer.load_state_dict(saved)

        self.check_exchanged(exchange)

    def test_parameters_loaded(self):
        def exchange(module, optimizer):
            module.load_state_dict({name: tensor * 2 for name, tensor in module.state_dict().items()})

        self.check_exchanged(exchange)

    def test_optimizer_state_replaced_by_hand(self):
        def exchange(module, optimizer):
            for entries in optimizer.state.values():
                entries["exp_avg_sq"] = entries["exp_avg_sq"] + 1

        self.check_exchanged(exchange)


class GroupsTest(TrainStepTestCase):
    """Sums over part of the ranks: a dimension of a mesh."""

    world_size = 4

    def check_dimension(self, dimension, group):
        mesh = init_device_mesh(self.device_type, (2, 2), mesh_dim_names=("replicas", "others"))
        self.check_beside_ddp(
            model(),
            rows,
            momentum_sgd,
            options={"group": group(mesh)},
            ddp_options={"process_group": mesh.get_group(dimension)},
        )

    def test_dimension_of_a_mesh(self):
        self.check_dimension(0, lambda mesh: (mesh, 0))

    def test_dimension_of_a_mesh_by_name(self):
        self.check_dimension(1, lambda mesh: (mesh, "others"))

    def test_mesh_of_one_dimension(self):
        self.check_dimension(1, lambda mesh: mesh["others"])

    def test_process_group(self):
        self.check_dimension(0, lambda mesh: mesh.get_group("replicas"))


class RefusedTest(TrainStepTestCase):
    """A step that changes what its graph cannot."""

    world_size = 1

    def test_schedule_inside_of_the_step(self):
        module = model()
        optimizer = momentum_sgd(module)
        scheduler = lr_scheduler.StepLR(optimizer, step_size=1)

        def step(module, optimizer, x):
            loss = sum_step(module, optimizer, x)
            scheduler.step()
            return loss

        sum_step(module, optimizer, *rows())
        optimizer.zero_grad()
        with self.assertRaisesRegex(UsageError, r"the step changes what is no tensor.*optimizer group 0 lr"):
            train_step.compile()(step)(module, optimizer, *rows())
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.1)


if __name__ == "__main__":
    run_tests()
