"""Reference kernels for ``SyncBatchNorm`` on devices that have none of the five it calls, as the CPU.

Owns their mathematics and their registration. All statistics are per channel (dimension 1); ``invstd`` is
``1 / sqrt(variance + eps)``, the variance being that of the whole batch (not Bessel's).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor


def _others(x: Tensor) -> list[int]:
    """Return the dimensions over which a channel's statistics are taken."""
    return [dim for dim in range(x.dim()) if dim != 1]


def _along(channels: Tensor, x: Tensor) -> Tensor:
    """Return one number a channel in a shape that goes with ``x``."""
    return channels.view(1, -1, *[1] * (x.dim() - 2))


def stats(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return this rank's mean and invstd."""
    dims = _others(x)
    return x.mean(dims), (x.var(dims, correction=0) + eps).rsqrt()


def gather_stats(
    x: Tensor,
    means: Tensor,
    invstds: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return mean and invstd of all ranks' rows, and move the running statistics towards them.

    ``means`` and ``invstds`` have a row a rank, ``counts`` an entry. With nothing counted the mean is 0, and
    the running statistics stay.
    """
    total = counts.sum()
    if not total:
        return x.new_zeros(x.shape[1]), x.new_full((x.shape[1],), eps).rsqrt()
    share = (counts / total)[:, None]
    mean = (share * means).sum(0)
    variance = (share * (invstds**-2 - eps + (means - mean) ** 2)).sum(0)
    if running_mean is not None:
        running_mean.lerp_(mean, momentum)
    if running_var is not None:
        running_var.lerp_(variance * total / (total - 1), momentum)
    return mean, (variance + eps).rsqrt()


def normalize(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float
) -> Tensor:
    """Return ``x`` normalized with these statistics, scaled and shifted."""
    result = (x - _along(mean, x)) * _along(invstd, x)
    result = result if weight is None else result * _along(weight, x)
    return result if bias is None else result + _along(bias, x)


def backward_reduce(
    dy: Tensor,
    x: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return this rank's sums of ``dy`` and ``dy * (x - mean)``, and its gradients of weight and bias."""
    dims = _others(x)
    sum_dy, sum_dy_xmu = dy.sum(dims), (dy * (x - _along(mean, x))).sum(dims)
    return sum_dy, sum_dy_xmu, sum_dy_xmu * invstd, sum_dy.clone()


def backward_elements(
    dy: Tensor,
    x: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """Return the gradient of ``x``, the sums being those of all ranks."""
    total = count.sum()
    shift, slope = sum_dy / total, sum_dy_xmu / total * invstd**2
    scale = invstd if weight is None else invstd * weight
    return (dy - _along(shift, x) - (x - _along(mean, x)) * _along(slope, x)) * _along(scale, x)


KERNELS = {
    "batch_norm_stats": stats,
    "batch_norm_gather_stats_with_counts": gather_stats,
    "batch_norm_elemt": normalize,
    "batch_norm_backward_reduce": backward_reduce,
    "batch_norm_backward_elemt": backward_elements,
}


@contextmanager
def sync_batch_norm_on(device_type: str) -> Iterator[None]:
    """Let ``SyncBatchNorm`` run on a device: register the kernels, and pass its check of the device.

    The check asks for the name of the private backend; that is ``device_type`` as long as this lasts.
    """
    key = torch._C._dispatch_key_for_device(device_type)
    with (
        torch.library._scoped_library("aten", "IMPL") as library,
        mock.patch.object(torch._C, "_get_privateuse1_backend_name", lambda: device_type),
    ):
        for name, kernel in KERNELS.items():
            library.impl(name, kernel, key)
        yield
