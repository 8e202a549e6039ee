"""Faults of reductions: whose part is in them, by which operation, and where the result goes."""

from __future__ import annotations

import torch
import torch.distributed as dist

from suites.c10d.faults.arguments import (
    is_last,
    keep_own,
    reduces,
    rotate_input_lists,
    rotated,
    size_of,
)
from suites.kernels import kernel, operation

#: What a member contributes that is left out: a reduction of the others' parts is the same with it.
NEUTRAL = {
    dist.ReduceOp.SUM: lambda tensor: tensor.zero_(),
    dist.ReduceOp.AVG: lambda tensor: tensor.zero_(),
    dist.ReduceOp.PRODUCT: lambda tensor: tensor.fill_(1),
    dist.ReduceOp.MIN: lambda tensor: tensor.fill_(limits(tensor)[1]),
    dist.ReduceOp.MAX: lambda tensor: tensor.fill_(limits(tensor)[0]),
    dist.ReduceOp.BAND: lambda tensor: tensor.fill_(1 if tensor.dtype == torch.bool else -1),
    dist.ReduceOp.BOR: lambda tensor: tensor.zero_(),
    dist.ReduceOp.BXOR: lambda tensor: tensor.zero_(),
}


def limits(tensor):
    """Return the least and the greatest value of a tensor's dtype."""
    if tensor.dtype == torch.bool:
        return 0, 1
    info = torch.finfo(tensor.dtype) if tensor.is_floating_point() else torch.iinfo(tensor.dtype)
    return info.min, info.max


class Summing:
    """An operator's argument that says SUM."""

    @staticmethod
    def op():
        return dist.ReduceOp.RedOpType.SUM


def _is_numeric_sum(tensors, group, op, *rest):
    numeric = all(tensor.dtype != torch.bool for tensor in tensors)
    return numeric and operation(op) == dist.ReduceOp.SUM and reduces(1)(tensors, group, op)


def _is_no_sum(tensors, group, op, *rest):
    return operation(op) != dist.ReduceOp.SUM and reduces(1)(tensors, group, op)


def _average(original, tensors, group, op, *rest):
    for tensor in tensors:
        tensor.copy_(tensor / size_of(group))
    return original(tensors, group, op, *rest)


def _leave_out_the_last(original, tensors, group, op, *rest):
    if is_last(group):
        for tensor in tensors:
            NEUTRAL[operation(op)](tensor)
    return original(tensors, group, op, *rest)


def _sum_whatever(original, tensors, group, op, *rest):
    return original(tensors, group, Summing, *rest)


def _next_root(original, tensors, group, op, root, *rest):
    return original(tensors, group, op, (root + 1) % size_of(group), *rest)


def _rotate_input_chunks(original, output, whole, group, *rest):
    return original(output, torch.cat(rotated(whole.chunk(size_of(group)))), group, *rest)


REDUCTIONS = (
    kernel(
        "all_reduce_is_identity",
        "all_reduce leaves every rank what it had",
        "c10d::allreduce_",
        keep_own,
        reduces(1),
    ),
    kernel(
        "all_reduce_averages",
        "all_reduce averages where it should sum",
        "c10d::allreduce_",
        _average,
        _is_numeric_sum,
    ),
    kernel(
        "all_reduce_drops_a_part",
        "all_reduce leaves out the last rank's part",
        "c10d::allreduce_",
        _leave_out_the_last,
        reduces(1),
    ),
    kernel(
        "all_reduce_sums_whatever",
        "all_reduce sums, whatever it is told to do",
        "c10d::allreduce_",
        _sum_whatever,
        _is_no_sum,
    ),
    kernel(
        "reduce_to_wrong_root",
        "reduce gives the result to the next rank",
        "c10d::reduce_",
        _next_root,
        reduces(1),
    ),
    kernel(
        "reduce_drops_a_part",
        "reduce leaves out the last rank's part",
        "c10d::reduce_",
        _leave_out_the_last,
        reduces(1),
    ),
    kernel(
        "reduce_scatter_shifts",
        "reduce_scatter gives each rank the next rank's part",
        "c10d::reduce_scatter_",
        rotate_input_lists,
        reduces(2),
    ),
    kernel(
        "reduce_scatter_tensor_shifts",
        "reduce_scatter_tensor gives each rank the next rank's rows",
        "c10d::_reduce_scatter_base_",
        _rotate_input_chunks,
        reduces(2),
    ),
)
