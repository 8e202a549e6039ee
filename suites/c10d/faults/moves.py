"""Faults of what moves data: to whom, from whom, into which place, under which tag."""

from __future__ import annotations

import torch

from suites.c10d.faults.arguments import moves, rotate_input_lists, rotated, something
from suites.c10d.inputs import COMPLEX, EVERYTHING
from suites.kernels import kernel, size_of
from suites.planting import replacing


def _next_source(original, tensors, group, root, *rest):
    return original(tensors, group, (root + 1) % size_of(group), *rest)


def _rotate_output_lists(original, outputs, *rest):
    return original([rotated(parts) for parts in outputs], *rest)


def _rotate_places(original, group, outputs, *rest):
    return original(group, [rotated(parts) for parts in outputs], *rest)


def _moves_among_several(group, *_):
    return group.size() > 1


def _gather_into_rotated_chunks(original, output, tensor, group, asynchronous, timeout):
    boxed = torch.ops.c10d.allgather_.default
    _, work = boxed([rotated(output.chunk(size_of(group)))], [tensor], group, asynchronous, timeout)
    return output, work


def _rotate_inputs(original, outputs, inputs, *rest):
    return original(outputs, rotated(inputs), *rest)


def _reverse_rows(original, output, tensor, *rest):
    return original(output, tensor.flip(0), *rest)


def _has_rows(output, tensor, group, *_):
    return moves(2)(output, tensor, group) and tensor.dim() > 0 and len(tensor) > 1 and tensor.numel() > 0


def _send_zeros(original, tensors, *rest):
    return original([torch.zeros_like(tensor) for tensor in tensors], *rest)


def _forget_the_tag(original, tensors, group, peer, tag):
    return original(tensors, group, peer, 0)


def _has_tag(tensors, group, peer, tag):
    return tag != 0


def _sends_numbers(tensors, *_):
    return something(tensors)


MOVES = (
    kernel(
        "broadcast_from_wrong_source",
        "broadcast sends what the rank after the root has",
        "c10d::broadcast_",
        _next_source,
        moves(1),
    ),
    kernel(
        "scatter_shifts",
        "scatter gives each rank the next rank's part",
        "c10d::scatter_",
        rotate_input_lists,
        moves(2),
    ),
    kernel(
        "gather_permutes",
        "gather puts each rank's part into the place before its own",
        "c10d::gather_",
        _rotate_output_lists,
        moves(2, tuple(dtype for dtype in EVERYTHING if dtype not in COMPLEX)),
    ),
    # Where Python calls it: in C++ DDP compares by it what is the same on all ranks.
    replacing(
        "all_gather_permutes",
        "all_gather puts each rank's part into the place before its own",
        "torch._C._distributed_c10d:ProcessGroup.allgather",
        _rotate_places,
        _moves_among_several,
    ),
    kernel(
        "all_gather_into_tensor_permutes",
        "all_gather_into_tensor puts each rank's rows into the place before their own",
        "c10d::_allgather_base_",
        _gather_into_rotated_chunks,
        moves(2),
    ),
    kernel(
        "all_to_all_shifts",
        "all_to_all sends each part to the rank before",
        "c10d::alltoall_",
        _rotate_inputs,
        moves(2),
    ),
    kernel(
        "all_to_all_single_reverses",
        "all_to_all_single sends its rows in reverse order",
        "c10d::alltoall_base_",
        _reverse_rows,
        _has_rows,
    ),
    kernel("send_sends_zeros", "send sends zeros", "c10d::send", _send_zeros, _sends_numbers),
    kernel("send_forgets_the_tag", "send sends by tag 0", "c10d::send", _forget_the_tag, _has_tag),
)
