"""Faults of DistributedDataParallel and SyncBatchNorm."""

from __future__ import annotations

import contextlib
import sys

import torch
import torch.distributed as dist

from suites.planting import replacing

DDP = "torch.nn.parallel.distributed"
CLASS = f"{DDP}:DistributedDataParallel"


def group_size(ddp, *_, **__):
    return dist.get_world_size(ddp.process_group)


def _synchronizes(ddp, *_, **__):
    """Whether a forward is followed by an exchange of gradients, among ranks that differ."""
    return torch.is_grad_enabled() and ddp.require_backward_grad_sync and group_size(ddp) > 1


def _skip_the_hooks(original, ddp, output):
    with ddp.no_sync():  # a reducer that is not told of the backward does nothing in it
        return original(ddp, output)


def _has_no_hook(ddp, *inputs, **kwargs):
    return _synchronizes(ddp) and not ddp._get_ddp_logging_data().get("comm_hook", "")


def _sum_only(state, bucket):
    work = dist.all_reduce(bucket.buffer(), group=state, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def _do_not_average(original, ddp, *inputs, **kwargs):
    if not getattr(ddp, "_planted", False):
        dist._register_comm_hook(ddp.reducer, ddp.process_group, _sum_only)
        ddp._planted = True
    return original(ddp, *inputs, **kwargs)


def _nothing(original, *args, **kwargs):
    return None


def _has_a_group(module, process_group, *_, **__):
    return dist.get_world_size(process_group) > 1


@contextlib.contextmanager
def _still_sync(original, ddp):
    yield


def _would(ddp, *_):
    return group_size(ddp) > 1 and ddp.forward_sync_buffers and len(ddp.modules_buffers) > 0


def _one_bucket(original, tensors, *args, **kwargs):
    buckets, limits = original(tensors, *args, **kwargs)
    return [sorted(index for bucket in buckets for index in bucket)], [max(limits)]


def _is_asked_directly(tensors, *args, **kwargs):
    """Whether the buckets are what is asked for; gradients are the same in whatever buckets they travel."""
    callers = (sys._getframe(depth).f_globals["__name__"] for depth in (2, 3))
    return len(tensors) > 1 and DDP not in callers


def _ignore_the_hook(original, ddp, state, hook):
    ddp._check_comm_hook(hook)


def _own_statistics(original, module, rows):
    return torch.nn.functional.batch_norm(
        rows, module.running_mean, module.running_var, module.weight, module.bias, module.training
    )


def _has_statistics_of_others(module, rows):
    several = dist.is_initialized() and dist.get_world_size(module.process_group) > 1
    return module.training and several


def _empty(original, ddp):
    return {}


def _divide_by_the_other(original, ddp, divide_by_initial_world_size=True, *args, **kwargs):
    return original(ddp, not divide_by_initial_world_size, *args, **kwargs)


def _goes_on(*_, throw_on_early_termination=False, **__):
    return not throw_on_early_termination


DDP_FAULTS = (
    replacing(
        "ddp_skips_its_gradient_hooks",
        "gradients stay the rank's own",
        f"{CLASS}._post_forward",
        _skip_the_hooks,
        _synchronizes,
    ),
    replacing(
        "ddp_does_not_average", "gradients are summed", f"{CLASS}._pre_forward", _do_not_average, _has_no_hook
    ),
    replacing(
        "ddp_starts_with_other_states",
        "rank 0's state is not taken over at the start",
        f"{DDP}:_sync_module_states",
        _nothing,
        _has_a_group,
    ),
    replacing("ddp_keeps_buffers", "buffers are not broadcast", f"{CLASS}._sync_buffers", _nothing, _would),
    replacing("no_sync_synchronizes", "no_sync does nothing", f"{CLASS}.no_sync", _still_sync),
    replacing(
        "ddp_has_one_bucket",
        "all gradients in one bucket",
        "torch.distributed:_compute_bucket_assignment_by_size",
        _one_bucket,
        _is_asked_directly,
    ),
    replacing(
        "ddp_ignores_comm_hooks", "comm hooks are not called", f"{CLASS}.register_comm_hook", _ignore_the_hook
    ),
    replacing("ddp_logs_nothing", "no logging data", f"{CLASS}._get_ddp_logging_data", _empty),
    replacing(
        "ddp_join_divides_wrongly", "by the other world size", f"{CLASS}.join", _divide_by_the_other, _goes_on
    ),
    replacing(
        "sync_batch_norm_keeps_to_itself",
        "statistics are the rank's own",
        "torch.nn:SyncBatchNorm.forward",
        _own_statistics,
        _has_statistics_of_others,
    ),
)
