"""Faults of the collectives, at the operator that every way to call one ends in.

Each member of the group has the fault, except where it is said to be the last member's. A group of one rank
has nothing to exchange, and is not concerned.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from suites.c10d.inputs import COMPLEX, DTYPES_OF_OP, EVERYTHING
from suites.kernels import kernel, no_kernel, operation
from suites.planting import replacing

_create_work_from_future = torch._C._distributed_c10d._create_work_from_future

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


def done(tensors):
    """Return a handle, boxed, of work that is complete and has ``tensors`` for its result."""
    future = torch.futures.Future()
    future.set_result(tensors)
    return _create_work_from_future(future).boxed()


def unboxed(group):
    return dist.ProcessGroup.unbox(group)


def size_of(group):
    return unboxed(group).size()


def is_last(group):
    return unboxed(group).rank() == size_of(group) - 1


def rotated(parts):
    return [*parts[1:], *parts[:1]]


class Summing:
    """An operator's argument that says SUM."""

    @staticmethod
    def op():
        return dist.ReduceOp.RedOpType.SUM


def flat(tensors):
    """Return the tensors of a tensor, a list, or a list of lists."""
    if isinstance(tensors, torch.Tensor):
        return [tensors]
    return [tensor for part in tensors for tensor in flat(part)]


def moves(position, dtypes=EVERYTHING):
    """Return a condition: the group, the argument at ``position``, has several ranks, and gloo moves what is
    given before it. Other dtypes it refuses, some only when they are waited for.
    """

    def concerned(*args):
        given = flat([flat(each) for each in args[:position]])
        return size_of(args[position]) > 1 and all(tensor.dtype in dtypes for tensor in given)

    return concerned


def reduces(position):
    """Return the same condition for a reduction, whose operation follows the group."""

    def concerned(*args):
        defined = DTYPES_OF_OP.get(operation(args[position + 1]).name.lower(), ())
        return moves(position, defined)(*args) and _something(flat([flat(each) for each in args[:position]]))

    return concerned


def _something(tensors):
    return any(tensor.numel() for tensor in tensors)


# -- reductions


def _keep_own(original, tensors, *_):
    return tensors, done(tensors)


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


def _rotate_input_lists(original, outputs, inputs, *rest):
    return original(outputs, [rotated(parts) for parts in inputs], *rest)


def _rotate_input_chunks(original, output, whole, group, *rest):
    return original(output, torch.cat(rotated(whole.chunk(size_of(group)))), group, *rest)


def _first_only(original, tensors, *rest):
    return original(tensors[:1], *rest)


REDUCTIONS = (
    kernel(
        "all_reduce_is_identity",
        "all_reduce leaves every rank what it had",
        "c10d::allreduce_",
        _keep_own,
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
        _rotate_input_lists,
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

# -- moving data


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


def _sends_something(tensors, *_):
    return _something(tensors)


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
        _rotate_input_lists,
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
    kernel("send_sends_zeros", "send sends zeros", "c10d::send", _send_zeros, _sends_something),
    kernel("send_forgets_the_tag", "send sends by tag 0", "c10d::send", _forget_the_tag, _has_tag),
)

# -- several tensors in one call


def _several_tensors(position, tensors_at=0):
    return lambda *args: size_of(args[position]) > 1 and len(args[tensors_at]) > 1


def _drop_the_last(original, outputs, inputs, *rest):
    return original(outputs[:-1], inputs[:-1], *rest)


COALESCED = (
    kernel(
        "all_reduce_coalesced_does_the_first",
        "all_reduce_coalesced reduces its first tensor only",
        "c10d::allreduce_coalesced_",
        _first_only,
        _several_tensors(1),
    ),
    kernel(
        "all_gather_coalesced_drops_the_last",
        "all_gather_coalesced leaves out its last tensor",
        "c10d::allgather_coalesced_",
        _drop_the_last,
        _several_tensors(2, tensors_at=1),
    ),
    kernel(
        "sparse_all_reduce_is_identity",
        "all_reduce of a sparse tensor leaves every rank what it had",
        "c10d::allreduce_",
        _keep_own,
        moves(1),
        key="SparseCPU",
    ),
)

# -- time


def _do_not_wait(original, tensor, *rest):
    return done([tensor])


def _do_not_monitor(original, *_):
    return None


def _same(tensor):
    return tensor


BARRIERS = (
    kernel("barrier_does_not_wait", "a barrier returns at once", "c10d::barrier", _do_not_wait, moves(1)),
    kernel(
        "monitored_barrier_does_not_wait",
        "a monitored barrier returns at once",
        "c10d::monitored_barrier_",
        _do_not_monitor,
        moves(1),
    ),
    no_kernel(
        "wait_tensor_is_a_no_op",
        "a functional collective's wait returns at once",
        "_c10d_functional::wait_tensor",
        _same,
        replacing(
            "",
            "",
            (
                "torch.distributed._functional_collectives:wait_tensor",
                "torch.distributed._functional_collectives:AsyncCollectiveTensor.trigger_wait",
                "torch.distributed._functional_collectives:AsyncCollectiveTensor.wait",
            ),
            _same,
        ),
    ),
)
