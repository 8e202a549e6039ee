"""``FSDPTestMixin``: trains a model in FSDP1 beside the same model in DDP, and compares.

The methods' names and arguments are those of upstream's ``common_fsdp.FSDPTestMixin``.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import (
    BackwardPrefetch,
    CPUOffload,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
)
from torch.distributed.fsdp._common_utils import TrainingState
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.nn.parallel import DistributedDataParallel

from harness.cases import defaults, subtests
from harness.errors import UsageError
from harness.models.fsdp import DEVICEInitMode, FSDPInitMode, FSDPTestModel, in_fsdp

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# The mixin precedes a TestCase of this library among the bases.
if TYPE_CHECKING:
    from harness.testcase import TestCase as _Case
else:
    _Case = object

# Keyword arguments for something that is made inside; None for none.
_Keywords: TypeAlias = dict[str, Any] | None
_Precision: TypeAlias = MixedPrecision | None

# Strategies that leave parameters whole between forward and backward.
_KEEPS_WHOLE = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)
# Momentum, and not Adam: Adam's step hardly depends on the size of a gradient, so it would hide a wrong one.
_MOMENTUM = 0.9


@dataclass
class _Training:
    """How ``_train_for_several_steps`` trains: its arguments, and what follows from them."""

    offloads: bool
    saves: bool
    mixed: MixedPrecision | None
    half: bool
    autocast: bool
    scaler: dict[str, Any] = field(default_factory=dict)

    def input_in_half(self, sharded: bool) -> bool:
        return self.half or (self.mixed is not None and not sharded)

    def loss_dtype(self, sharded: bool) -> torch.dtype | None:
        """The dtype that the loss must have: FSDP1's is its parameters', DDP's under autocast is not."""
        if self.half:
            return torch.float16
        return self.mixed.param_dtype if self.mixed is not None and sharded else torch.float32


class FSDPTestMixin(_Case):
    """The helpers of an FSDP test on ranks that are processes."""

    process_group: Any

    run_subtests = subtests.run_subtests

    def _check_cpu_offload(self, fsdp_model: Any, cpu_offload: CPUOffload | None) -> None:
        self.assertEqual(fsdp_model.cpu_offload, cpu_offload)

    def _check_backward_prefetch(self, fsdp_model: Any, backward_prefetch: BackwardPrefetch | None) -> None:
        self.assertEqual(fsdp_model.backward_prefetch, backward_prefetch)

    def _check_forward_prefetch(self, fsdp_model: Any, forward_prefetch: bool) -> None:
        self.assertEqual(fsdp_model.forward_prefetch, forward_prefetch)

    def _train_for_several_steps(
        self,
        model: Any,
        num_steps: int,
        autocast: bool,
        lr: float = 0.01,
        fsdp_cpu_offload: CPUOffload | None = None,
        save_model: bool = False,
        mixed_precision: _Precision = None,
        enable_sharded_grad_scaler: bool = False,
        use_pure_fp16: bool = False,
        sharded_grad_scaler_kwargs: _Keywords = None,
    ) -> Tensor:
        """Trains a wrapped ``FSDPTestModel`` by SGD with momentum; returns the last step's loss.

        Fails where the loss has another dtype than the options imply, where offloaded parameters are not on
        the CPU, and where FSDP1 is not idle at the end. ``save_model`` sets the parameters to zero after each
        step and loads them from a state dict taken before.
        """
        if num_steps < 1:
            raise UsageError(f"num_steps is {num_steps}: it has to be 1 or more")
        how = _Training(
            offloads=fsdp_cpu_offload is not None and fsdp_cpu_offload.offload_params,
            saves=save_model,
            mixed=mixed_precision,
            half=use_pure_fp16,
            autocast=autocast,
        )
        scaler = ShardedGradScaler(enabled=enable_sharded_grad_scaler, **(sharded_grad_scaler_kwargs or {}))
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=_MOMENTUM)
        for _ in range(num_steps):
            optimizer.zero_grad()
            loss = scaler.scale(self._loss_of(model, how))
            sharded = isinstance(model, FullyShardedDataParallel)
            self.assertEqual(loss.dtype, how.loss_dtype(sharded), "the loss's dtype")
            model.module.run_backward(loss)
            if how.offloads and sharded:
                self._check_offloaded(model)
            scaler.step(optimizer)
            scaler.update()
            if how.saves:
                _save_and_load(model)
        if isinstance(model, FullyShardedDataParallel):
            model._assert_state(TrainingState.IDLE)
        return loss.detach()

    def _loss_of(self, model: Any, how: _Training) -> Tensor:
        device, sharded = defaults.accelerator()[0], isinstance(model, FullyShardedDataParallel)
        home = next(model.parameters()).device
        with torch.amp.autocast(device, enabled=how.autocast):
            given = model.module.get_input(torch.device(device))
            if how.input_in_half(sharded):
                given = given.half() if isinstance(given, Tensor) else tuple(each.half() for each in given)
            output = model(*given)
            if how.offloads and sharded and model.sharding_strategy not in _KEEPS_WHOLE:
                self._check_offloaded(model)
            loss: Tensor = model.module.get_loss(given, output).to(home)
        return loss

    def _check_offloaded(self, model: nn.Module) -> None:
        where = {str(parameter.device) for parameter in model.parameters()}
        self.assertEqual(where, {"cpu"}, "the devices of offloaded parameters")

    def _test_fsdp_parity(
        self,
        model_class: type[FSDPTestModel],
        fsdp_init_mode: FSDPInitMode,
        device_init_mode: DEVICEInitMode,
        ref_init_fn: Callable[[nn.Module], nn.Module] | None = None,
        num_iters: int = 2,
        save_model: bool = True,
        cpu_offload: CPUOffload | None = None,
        backward_prefetch: BackwardPrefetch | None = None,
        sharding_strategy: ShardingStrategy | None = None,
        mixed_precision: _Precision = None,
        forward_prefetch: bool = False,
        use_orig_params: bool = False,
        enable_sharded_grad_scaler: bool = False,
        use_pure_fp16: bool = False,
        init_kwargs: _Keywords = None,
        sharded_grad_scaler_kwargs: _Keywords = None,
        **fsdp_kwargs: Any,
    ) -> None:
        """Fails unless a model trains in FSDP1 as it does in DDP: the same last loss and parameters.

        ``ref_init_fn`` wraps the plain model in place of DDP. In mixed and in half precision only losses
        are compared, without their dtype. Where parameters are offloaded and the model moves to the
        accelerator after it was wrapped, FSDP1's own error is what must come.
        """
        if fsdp_init_mode is FSDPInitMode.NO_FSDP:
            raise UsageError("fsdp_init_mode is NO_FSDP: there is nothing to compare with DDP")
        offload = CPUOffload() if cpu_offload is None else cpu_offload
        own = {"deterministic": True, **(init_kwargs or {})}
        training: dict[str, Any] = {
            "num_steps": num_iters,
            "fsdp_cpu_offload": offload,
            "mixed_precision": mixed_precision,
            "enable_sharded_grad_scaler": enable_sharded_grad_scaler,
            "use_pure_fp16": use_pure_fp16,
            "sharded_grad_scaler_kwargs": sharded_grad_scaler_kwargs,
        }
        group, before = self.process_group, DEVICEInitMode.DEVICE_BEFORE
        plain = model_class.init(group, FSDPInitMode.NO_FSDP, before, **own)
        reference = _in_ddp(plain, group.rank()) if ref_init_fn is None else ref_init_fn(plain)
        if use_pure_fp16:
            reference = reference.half()
        wanted = self._train_for_several_steps(reference, autocast=mixed_precision is not None, **training)
        options = {
            "cpu_offload": offload,
            "backward_prefetch": backward_prefetch,
            "sharding_strategy": sharding_strategy,
            "mixed_precision": mixed_precision,
            "forward_prefetch": forward_prefetch,
            "use_orig_params": use_orig_params,
            **fsdp_kwargs,
        }
        sharded = self._sharded(model_class, fsdp_init_mode, device_init_mode, options, own, use_pure_fp16)
        misplaced = offload.offload_params and device_init_mode is DEVICEInitMode.DEVICE_AFTER
        if misplaced and defaults.accelerator()[0] != "cpu":
            with self.assertRaisesRegex(RuntimeError, "CPU offloading enabled has parameters on"):
                self._train_for_several_steps(sharded, autocast=False, save_model=save_model, **training)
            return
        if offload.offload_params:
            self._check_offloaded(sharded)
        found = self._train_for_several_steps(sharded, autocast=False, save_model=save_model, **training)
        if offload.offload_params:
            self._check_offloaded(sharded)
        torch.testing.assert_close(found.to(wanted.device), wanted, check_dtype=False)
        if mixed_precision is None and not use_pure_fp16:
            whole = get_full_params(sharded)
            self.assertEqual(whole, list(reference.parameters()), "FSDP's parameters differ from DDP's")

    def _sharded(
        self,
        model_class: type[FSDPTestModel],
        fsdp_init_mode: FSDPInitMode,
        device_init_mode: DEVICEInitMode,
        options: dict[str, Any],
        own: dict[str, Any],
        half: bool,
    ) -> nn.Module:
        group = self.process_group
        # A model's init may take the policy out of the options that it gets.
        model = model_class.init(group, fsdp_init_mode, device_init_mode, copy.copy(options), **own)
        if not isinstance(model, FullyShardedDataParallel):
            model = in_fsdp(model, group, **options)
        if half:
            model = model.half()
        after = device_init_mode is DEVICEInitMode.DEVICE_AFTER
        return model.to(defaults.accelerator()[0]) if after else model


def get_full_params(model: nn.Module, recurse: bool = True) -> list[nn.Parameter]:
    """Copies of an FSDP1 model's whole parameters, offloaded ones on the accelerator.

    Without ``recurse`` only the root's own are whole.
    """
    with FullyShardedDataParallel.summon_full_params(model, recurse=recurse):
        return copy.deepcopy(list(model.parameters()))


def _save_and_load(model: nn.Module) -> None:
    saved = {name: value.clone() for name, value in model.state_dict().items()}
    whole = (
        FullyShardedDataParallel.summon_full_params(model)
        if isinstance(model, FullyShardedDataParallel)
        else contextlib.nullcontext()
    )
    with whole, torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    model.load_state_dict(saved)


def _in_ddp(model: nn.Module, rank: int) -> nn.Module:
    """The model in DDP over the default group, on the rank's device."""
    kind = defaults.accelerator()[0]
    devices = None if kind == "cpu" else [rank]
    return DistributedDataParallel(model, device_ids=devices, output_device=devices and rank)
