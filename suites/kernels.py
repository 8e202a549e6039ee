"""Mutants of c10d's operators, planted at the dispatcher: for callers in Python and in C++ alike.

``dist.all_reduce``, a functional collective and DDP's reducer have little in common but the operator that
they end in, ``c10d::allreduce_``; a fault there is met by all of them.

The kernel that was there cannot be called from Python: it would hold the GIL, which gloo's threads need while
they hold a lock that it takes. So the backend is called as that kernel does, by its bound method, which lets
the GIL go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from suites.planting import Mutant, Touch, always

C = torch._C._distributed_c10d
#: What the operators have for the backend's own timeout, in milliseconds.
UNSET = -1
#: Registrations last as long as the objects that made them.
_libraries: list[Any] = []


def kernel(
    name: str,
    what: str,
    operator: str,
    faulty: Callable[..., Any],
    when: Callable[..., bool] = always,
    key: str = "CPU",
) -> Mutant:
    """A mutant that puts ``faulty(original, *args)`` in the place of an operator's kernel for a dispatch key.

    ``operator`` is a key of ``ORIGINALS``, ``c10d::allreduce_``; ``args`` are all its arguments, by position,
    also those that have defaults; ``original(*args)`` does what the kernel did. Calls for which
    ``when(*args)`` is false are not concerned, as in ``planting.replacing``.
    """

    def put(touch: Touch, faulty: Callable[..., Any] | None) -> None:
        before = _planted.get((operator, key), ORIGINALS[operator])

        def substitute(*args: Any) -> Any:
            concerned = when(*args)
            result = before(*args) if faulty is None or not concerned else faulty(before, *args)
            if concerned:
                touch()
            return result

        _planted[operator, key] = substitute
        _register(operator, key, lambda *args, **kwargs: substitute(*_by_position(operator, args, kwargs)))

    return Mutant(name, what, lambda touch: put(touch, faulty), lambda touch: put(touch, None))


#: What stands in an operator's place in this process: where several are watched, each calls the one before.
_planted: dict[tuple[str, str], Callable[..., Any]] = {}


def _register(operator: str, key: str, function: Callable[..., Any]) -> None:
    namespace, _, short = operator.partition("::")
    library = torch.library.Library(namespace, "IMPL")
    library.impl(short, function, key, allow_override=True)
    _libraries.append(library)


def no_kernel(name: str, what: str, operator: str, function: Callable[..., Any], watch: Mutant) -> Mutant:
    """A mutant that puts ``function(*args)`` in an operator's place and never needs what was there.

    It is watched where ``watch``, another mutant, would act: at the functions of Python that lead to it.
    """

    def plant(touch: Touch) -> None:
        def substitute(*args: Any) -> Any:
            touch()
            return function(*args)

        _register(operator, "CPU", substitute)

    return Mutant(name, what, plant, watch.watch)


def _by_position(operator: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """All arguments of a call; the dispatcher leaves out those that are as by default."""
    namespace, _, short = operator.partition("::")
    wanted = getattr(getattr(torch.ops, namespace), short).default._schema.arguments[len(args) :]
    return (*args, *(kwargs.get(each.name, each.default_value) for each in wanted))


# -- what operators are given and give back


def unboxed(group: Any) -> dist.ProcessGroup:
    """The process group of an operator's argument."""
    return dist.ProcessGroup.unbox(group)


def size_of(group: Any) -> int:
    """How many ranks the group of an operator's argument has."""
    return int(unboxed(group).size())


def done(tensors: Any) -> Any:
    """A handle, boxed, of work that is complete and has ``tensors`` for its result."""
    future = torch.futures.Future()
    future.set_result(tensors)
    return C._create_work_from_future(future).boxed()


# -- the kernels as they are


def _backend(group: Any, tensor: torch.Tensor) -> Any:
    return unboxed(group)._get_backend(tensor.device)


def _options(kind: str, asynchronous: bool, timeout: int, **values: Any) -> Any:
    options = getattr(C, f"{kind}Options")()
    options.asyncOp = asynchronous
    if timeout != UNSET:
        options.timeout = timedelta(milliseconds=timeout)
    for name, value in values.items():
        setattr(options, name, value)
    return options


def operation(boxed: Any) -> Any:
    """The ``dist.ReduceOp.RedOpType`` of an operator's argument."""
    return dist.ReduceOp.RedOpType(boxed.op()) if isinstance(boxed.op(), int) else boxed.op()


def _reduce_op(boxed: Any) -> Any:
    kind = operation(boxed)
    # The factor is lost in the box; gloo refuses the operation before it would look at it.
    return dist._make_nccl_premul_sum(1.0) if kind == dist.ReduceOp.PREMUL_SUM else dist.ReduceOp(kind)


def _all_reduce(tensors, group, op, sparse, *how):
    options = _options("Allreduce", *how, reduceOp=_reduce_op(op))
    return tensors, _backend(group, tensors[0]).allreduce(tensors, options).boxed()


def _all_reduce_coalesced(tensors, group, op, *how):
    options = _options("AllreduceCoalesced", *how, reduceOp=_reduce_op(op))
    return _backend(group, tensors[0]).allreduce_coalesced(tensors, options).boxed()


def _reduce(tensors, group, op, root, root_tensor, *how):
    op = _reduce_op(op)
    options = _options("Reduce", *how, reduceOp=op, rootRank=root, rootTensor=root_tensor)
    return _backend(group, tensors[0]).reduce(tensors, options).boxed()


def _reduce_scatter(outputs, inputs, group, op, *how):
    options = _options("ReduceScatter", *how, reduceOp=_reduce_op(op))
    return outputs, _backend(group, outputs[0]).reduce_scatter(outputs, inputs, options).boxed()


def _reduce_scatter_base(output, whole, group, op, *how):
    options = _options("ReduceScatter", *how, reduceOp=_reduce_op(op))
    return output, _backend(group, output)._reduce_scatter_base(output, whole, options).boxed()


def _broadcast(tensors, group, root, root_tensor, *how):
    options = _options("Broadcast", *how, rootRank=root, rootTensor=root_tensor)
    return tensors, _backend(group, tensors[0]).broadcast(tensors, options).boxed()


def _all_gather(outputs, inputs, group, *how):
    options = _options("Allgather", *how)
    return outputs, _backend(group, inputs[0]).allgather(outputs, inputs, options).boxed()


def _all_gather_base(output, tensor, group, *how):
    return output, _backend(group, tensor)._allgather_base(
        output, tensor, _options("Allgather", *how)
    ).boxed()


def _all_gather_coalesced(outputs, inputs, group, asynchronous):
    options = _options("Allgather", asynchronous, UNSET)
    return _backend(group, inputs[0]).allgather_coalesced(outputs, inputs, options).boxed()


def _gather(outputs, inputs, group, root, *how):
    options = _options("Gather", *how, rootRank=root)
    return _backend(group, inputs[0]).gather(outputs, inputs, options).boxed()


def _scatter(outputs, inputs, group, root, *how):
    options = _options("Scatter", *how, rootRank=root)
    return outputs, _backend(group, outputs[0]).scatter(outputs, inputs, options).boxed()


def _all_to_all(outputs, inputs, group, *how):
    options = _options("AllToAll", *how)
    return outputs, _backend(group, inputs[0]).alltoall(outputs, inputs, options).boxed()


def _all_to_all_base(output, tensor, group, received, sent, *how):
    options = _options("AllToAll", *how)
    return _backend(group, tensor).alltoall_base(output, tensor, received, sent, options).boxed()


def _send(tensors, group, target, tag):
    return _backend(group, tensors[0]).send(tensors, target, tag).boxed()


def _barrier(tensor, group, devices, *how):
    return _backend(group, tensor).barrier(_options("Barrier", *how, device_ids=devices)).boxed()


def _monitored_barrier(tensor, group, devices, timeout, wait_all_ranks):
    _backend(group, tensor).monitored_barrier(timedelta(milliseconds=timeout), wait_all_ranks)


ORIGINALS: Mapping[str, Callable[..., Any]] = {
    "c10d::allreduce_": _all_reduce,
    "c10d::allreduce_coalesced_": _all_reduce_coalesced,
    "c10d::reduce_": _reduce,
    "c10d::reduce_scatter_": _reduce_scatter,
    "c10d::_reduce_scatter_base_": _reduce_scatter_base,
    "c10d::broadcast_": _broadcast,
    "c10d::allgather_": _all_gather,
    "c10d::_allgather_base_": _all_gather_base,
    "c10d::allgather_coalesced_": _all_gather_coalesced,
    "c10d::gather_": _gather,
    "c10d::scatter_": _scatter,
    "c10d::alltoall_": _all_to_all,
    "c10d::alltoall_base_": _all_to_all_base,
    "c10d::send": _send,
    "c10d::barrier": _barrier,
    "c10d::monitored_barrier_": _monitored_barrier,
}
