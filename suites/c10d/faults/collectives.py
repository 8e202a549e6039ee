"""Faults of several tensors in one call, and of calls that are to wait.

Each member of the group has a collective's fault, except where it is said to be the last member's. A group of
one rank has nothing to exchange, and is not concerned. The faults stand at the operator that every way to
call a collective ends in; those of reductions and of what moves data are beside this module.
"""

from __future__ import annotations

from suites.c10d.faults.arguments import keep_own, moves
from suites.kernels import done, kernel, no_kernel, size_of
from suites.planting import replacing


def _first_only(original, tensors, *rest):
    return original(tensors[:1], *rest)


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
        keep_own,
        moves(1),
        key="SparseCPU",
    ),
)


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
