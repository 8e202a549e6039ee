"""The ground that the train-step tests stand on: two ranks, a compiled step, and DDP beside it.

Owns the comparison. A module and its copy in DDP are trained for three steps, each rank on inputs of its own
at each step; parameters, buffers, optimizer state and what the step returns have to be equal after each. The
tracer sums gradients, so DDP is told to. A step that averages, or never communicates, or multiplies by the
number of ranks instead, fails every test that comes through here. All communication is done before the first
comparison, so that a rank that fails leaves no other waiting.
"""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.utils._pytree import tree_map_only

from harness import DTensorContinuousTestBase
from harness.cases import defaults
from harness.graphs import CompiledStep, count_collectives, train_step
from harness.seeding import seed_all

#: What a compiled step may lose: it computes in the order in which DDP does.
ROUNDED = {"rtol": 1.3e-6, "atol": 1e-6}
#: Seeds the modules, which are equal on all ranks.
SEED = 0
STEPS = 3


def sum_step(module: nn.Module, optimizer: Optimizer, *inputs: Any) -> Tensor:
    """One step on the sum of what the module gives."""
    loss = module(*inputs).sum()
    loss.backward()
    optimizer.step()
    return loss


def weighted_step(module: nn.Module, optimizer: Optimizer, *inputs: Any) -> Tensor:
    """One step on a sum in which each element of what the module gives counts differently.

    For modules that normalize: their plain sum is a constant, and all gradients of it are rounding noise.
    """
    output = module(*inputs)
    weights = torch.arange(output.numel(), dtype=output.dtype, device=output.device) / output.numel()
    loss = (output * weights.view(output.shape).square()).sum()
    loss.backward()
    optimizer.step()
    return loss


def loss_step(module: nn.Module, optimizer: Optimizer, *inputs: Any) -> Tensor:
    """One step on a module that gives its loss."""
    loss = module(*inputs)
    loss.backward()
    optimizer.step()
    return loss


def gradients_step(module: nn.Module, *inputs: Any) -> list[Tensor | None]:
    """A step without an optimizer, for its gradients."""
    module(*inputs).sum().backward()
    return [parameter.grad for parameter in module.parameters()]


@dataclasses.dataclass(frozen=True)
class Steps:
    """What is trained, and how.

    ``function`` is the train step, ``optimizer`` makes its optimizer of the module (None: it has none), and
    ``draw`` its inputs. ``warm_up``: one eager step before, on the same inputs on all ranks. ``rates`` are
    learning rates, one a step, that the groups are given before it. ``between`` makes of a module and its
    optimizer what is called after each step: a scheduler's step, for example. ``ddp_module`` and
    ``ddp_function`` are what DDP has instead of a copy of ``module`` and of ``function``. ``all_reduces`` is
    how many there are, if not one a gradient. ``options`` are those of ``train_step.compile``,
    ``ddp_options`` DDP's.
    """

    module: nn.Module
    draw: Callable[[], Sequence[Any]]
    optimizer: Callable[[nn.Module], Optimizer] | None = None
    function: Callable[..., Any] = sum_step
    warm_up: bool = True
    rates: Sequence[float] = ()
    between: Callable[[nn.Module, Optimizer | None], Callable[[], object]] | None = None
    ddp_module: nn.Module | None = None
    ddp_function: Callable[..., Any] | None = None
    all_reduces: int | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    ddp_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class TrainStepTestCase(DTensorContinuousTestBase):
    """A test of compiled train steps on two ranks, which are kept."""

    world_size = 2
    rank_modes = ("pooled", "fresh")

    def setUpRank(self) -> None:
        super().setUpRank()
        seed_all(SEED)

    @property
    def device(self) -> torch.device:
        """Where this rank's tensors live: an accelerator, those of its host in turn, or the CPU."""
        return defaults.device_of(self.rank, self.device_type)

    # -- beside DDP

    def check_beside_ddp(
        self,
        module: nn.Module,
        draw: Callable[[], Sequence[Any]],
        optimizer: Callable[[nn.Module], Optimizer] | None = None,
        *,
        tolerance: Mapping[str, float] = ROUNDED,
        graphs: int = 1,
        **how: Any,
    ) -> CompiledStep:
        """Train as ``Steps`` say, compiled and in DDP, and compare step by step. Return what was compiled.

        Its graphs are ``graphs``, and the last has an all-reduce a parameter that has a gradient in DDP, or
        ``all_reduces``.
        """
        steps = Steps(module, draw, optimizer, **how)
        compiled, found, expected, reduced = self.train_both(steps)
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            with self.subTest(step=number):
                self.assertEqual(one, other, **tolerance)
        self.assertEqual(len(compiled.graphs), graphs)
        self.assertEqual(count_collectives(compiled.gm), {"all_reduce": reduced})
        self.assertEqual([n for n, p in compiled.mod.named_parameters() if p.grad is not None], [])
        return compiled

    def train_both(self, steps: Steps) -> tuple[CompiledStep, list[Any], list[Any], int]:
        """Train both. Return the compiled step, what each step left there and in DDP, and DDP's gradients."""
        module = steps.module.to(self.device)
        reference = (steps.ddp_module or copy.deepcopy(module)).to(self.device)
        optimizers = [steps.optimizer(each) if steps.optimizer else None for each in (module, reference)]
        if steps.warm_up:
            self.warm_up(steps, [module, reference], optimizers)
        ddp = self.summing_ddp(reference, **steps.ddp_options)
        compiled = train_step.compile(**steps.options)(steps.function)
        eager = steps.ddp_function or steps.function
        pairs = zip((module, reference), optimizers, strict=True)
        changes = [steps.between(*pair) for pair in pairs] if steps.between else []
        found, expected, gradients = [], [], 0
        for number in range(STEPS):
            inputs = self.drawn(steps.draw, seed=100 + STEPS * self.rank + number)
            self.set_rates(steps, number, optimizers)
            for function, one, left in ((compiled, module, found), (eager, ddp, expected)):
                optimizer = optimizers[one is ddp]
                seed_all(number)  # the same draws of what is random in the module
                arguments = [one] if optimizer is None else [one, optimizer]
                result = function(*arguments, *copy.deepcopy(inputs))
                left.append(self.left_by(result, reference if one is ddp else module, optimizer))
            for change in changes:
                change()
            gradients = sum(parameter.grad is not None for parameter in ddp.parameters())
            ddp.zero_grad()
        expected_reduces = gradients if steps.all_reduces is None else steps.all_reduces
        return compiled.__dict__[train_step.COMPILED_OBJECT_KEY], found, expected, expected_reduces

    def warm_up(
        self, steps: Steps, modules: Sequence[nn.Module], optimizers: Sequence[Optimizer | None]
    ) -> None:
        """One eager step of each, on the same inputs on all ranks, which leaves optimizer state behind."""
        inputs = self.drawn(steps.draw, seed=99)
        for module, optimizer in zip(modules, optimizers, strict=True):
            seed_all(99)
            steps.function(*([module] if optimizer is None else [module, optimizer]), *copy.deepcopy(inputs))
            module.zero_grad()
            for buffer in module.buffers():
                buffer.grad = None

    def drawn(self, draw: Callable[[], Sequence[Any]], *, seed: int) -> Sequence[Any]:
        """Inputs on this rank's device."""
        seed_all(seed)
        return tree_map_only(Tensor, lambda tensor: tensor.to(self.device), draw())

    def set_rates(self, steps: Steps, number: int, optimizers: Sequence[Optimizer | None]) -> None:
        """Give the groups the learning rate of a step, where it has one: the first all of it, then parts."""
        for optimizer in optimizers:
            for index, group in enumerate(optimizer.param_groups if optimizer and steps.rates else ()):
                rate = steps.rates[number] / (index + 1)
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate

    def summing_ddp(self, module: nn.Module, **options: Any) -> DistributedDataParallel:
        """DDP around a module that adds the ranks' gradients up, and leaves buffers to themselves."""
        device_ids = None if self.device_type == "cpu" else [self.device]
        with warnings.catch_warnings():
            # torch 2.13's new name for the option does not do the same, as the warning itself says.
            warnings.filterwarnings("ignore", message="`broadcast_buffers`", category=FutureWarning)
            ddp = DistributedDataParallel(module, device_ids=device_ids, broadcast_buffers=False, **options)
        ddp.register_comm_hook(ddp.process_group, _sum)
        return ddp

    def left_by(self, result: Any, module: nn.Module, optimizer: Optimizer | None) -> dict[str, Any]:
        """What a step has left and returned, by name."""
        left: dict[str, Any] = {"returned": result}
        left |= {f"parameter {name}": tensor for name, tensor in module.named_parameters()}
        left |= {f"buffer {name}": tensor for name, tensor in module.named_buffers()}
        for name, parameter in module.named_parameters() if optimizer else ():
            left |= {f"{key} of {name}": value for key, value in optimizer.state.get(parameter, {}).items()}
        return tree_map_only(Tensor, lambda tensor: tensor.detach().clone(), left)


def _sum(group, bucket):  # DDP takes no annotations that are strings
    """A communication hook of DDP's: what the ranks of a group have, added up."""
    work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])
