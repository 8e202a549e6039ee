"""Each ``Capability`` tried on two ranks: functions that raise where the backend does not have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

from harness.targets.target import Capability

# Within it nothing comes that never comes; on a machine however slow the call has begun by its end.
SHORT = timedelta(milliseconds=500)
# Tells the messages of a test apart.
FIRST_TAG, SECOND_TAG = 11, 12


@dataclass(frozen=True, slots=True)
class Place:
    """Where a try runs: a rank of two, its device, and a store at which the ranks can meet."""

    rank: int
    device: torch.device
    store: dist.Store

    def one(self, value: float) -> torch.Tensor:
        """A tensor of two elements on the rank's device."""
        return torch.full((2,), float(value), device=self.device)

    def mine(self) -> torch.Tensor:
        """A tensor of this rank: of ones on rank 0, of twos on rank 1."""
        return self.one(self.rank + 1)


def check(actual: Any, expected: Any, what: str) -> None:
    """AssertionError where they differ; tensors are compared by their numbers."""
    got, right = (x.detach().cpu().tolist() if isinstance(x, torch.Tensor) else x for x in (actual, expected))
    if got != right:
        raise AssertionError(f"{what}: {got}, and {right} is right")


def run(name: str, place: Place) -> None:
    """Tries the capability of this name."""
    _TRIES[Capability[name]](place)


def _sub_groups(place: Place) -> None:
    alone = [dist.new_group([rank]) for rank in (0, 1)][place.rank]
    both = dist.new_group([0, 1])
    for group, expected in ((alone, place.rank + 1), (both, 3)):
        tensor = place.mine()
        dist.all_reduce(tensor, group=group)
        check(tensor, place.one(expected), "all_reduce of a group")


def _split_group(place: Place) -> None:
    group = dist.split_group(None, [[0, 1]])
    tensor = place.mine()
    dist.all_reduce(tensor, group=group)
    check(tensor, place.one(3), "all_reduce of a group by split_group")


def _asynchronous(place: Place) -> None:
    tensor = place.mine()
    work = dist.all_reduce(tensor, async_op=True)
    check(work.wait(), True, "wait()")
    check(tensor, place.one(3), "all_reduce with async_op=True")


def _futures(place: Place) -> None:
    tensor = place.mine()
    future = dist.all_reduce(tensor, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    check(doubled.wait(), place.one(6), "the future of all_reduce")


def _point_to_point(place: Place) -> None:
    if place.rank == 0:
        dist.send(place.one(5), 1)
        return
    output = place.one(0)
    dist.recv(output, 0)
    check(output, place.one(5), "recv")


def _tags(place: Place) -> None:
    tags = (FIRST_TAG, SECOND_TAG)
    if place.rank == 0:
        for work in [dist.isend(place.one(tag), 1, tag=tag) for tag in tags]:
            work.wait()
        return
    for tag in reversed(tags):
        output = place.one(0)
        dist.recv(output, 0, tag=tag)
        check(output, place.one(tag), f"the message with tag {tag}")


def _any_source(place: Place) -> None:
    if place.rank == 0:
        dist.send(place.one(5), 1)
        return
    output = place.one(0)
    check(dist.recv(output), 0, "the source that recv names")
    check(output, place.one(5), "recv from any source")


def _batches(place: Place) -> None:
    output, peer = place.one(0), 1 - place.rank
    operations = [dist.P2POp(dist.isend, place.mine(), peer), dist.P2POp(dist.irecv, output, peer)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    check(output, place.one(peer + 1), "batch_isend_irecv")


def _coalescing(place: Place) -> None:
    tensors = [place.mine(), place.mine()]
    with _coalescing_manager(device=place.device):
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor in tensors:
        check(tensor, place.one(3), "a coalesced all_reduce")


def _coalesced_tensors(place: Place) -> None:
    tensors = [place.mine(), place.mine()]
    dist.all_reduce_coalesced(tensors)
    for tensor in tensors:
        check(tensor, place.one(3), "all_reduce_coalesced")


def _uneven_splits(place: Place) -> None:
    sent, received = ([1, 2], [1, 0]) if place.rank == 0 else ([0, 1], [2, 1])
    tensor = torch.arange(float(sum(sent)), device=place.device) + 10 * place.rank
    output = torch.zeros(sum(received), device=place.device)
    dist.all_to_all_single(output, tensor, received, sent)
    check(output.tolist(), [0.0] if place.rank == 0 else [1.0, 2.0, 10.0], "all_to_all_single")


def _uneven_lists(place: Place) -> None:
    tensors = [torch.full((size,), float(size), device=place.device) for size in (3, 1)]
    outputs = [torch.zeros_like(tensor) for tensor in tensors]
    dist.all_gather(outputs, tensors[place.rank])
    check([each.tolist() for each in outputs], [each.tolist() for each in tensors], "all_gather")


def _stacked_outputs(place: Place) -> None:
    output = torch.zeros((2, 2), device=place.device)
    dist.all_gather_into_tensor(output, place.mine())
    check(output, torch.stack([place.one(1), place.one(2)]), "all_gather_into_tensor")


def _objects(place: Place) -> None:
    found: list[Any] = [None, None]
    dist.all_gather_object(found, {"rank": place.rank})
    check(found, [{"rank": 0}, {"rank": 1}], "all_gather_object")
    told: list[Any] = ["told"] if place.rank == 1 else [None]
    dist.broadcast_object_list(told, 1)
    check(told, ["told"], "broadcast_object_list")


def _sparse(place: Place) -> None:
    tensor = torch.diag(place.mine()).to_sparse()
    dist.all_reduce(tensor)
    check(tensor.to_dense(), torch.diag(place.one(3)), "all_reduce of sparse tensors")


def _barrier(place: Place) -> None:
    dist.barrier()
    place.store.set(f"through/{place.rank}", "here")
    place.store.get(f"through/{1 - place.rank}")
    dist.barrier()


def _monitored_barrier(place: Place) -> None:
    dist.monitored_barrier()


def _timeouts(place: Place) -> None:
    group = dist.new_group(timeout=SHORT)
    if place.rank == 1:
        place.store.get("given up")
        return
    try:
        dist.all_reduce(place.mine(), group=group)
    except RuntimeError:
        return
    finally:
        place.store.set("given up", "here")
    raise AssertionError("a call that its peer never made did not time out")


def _sequence_numbers(place: Place) -> None:
    group = dist.new_group()
    before = group._get_sequence_number_for_group()
    dist.all_reduce(place.mine(), group=group)
    check(group._get_sequence_number_for_group(), before + 1, "the number after one collective")


def _profiling(place: Place) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        dist.all_reduce(place.mine())
    name = f"{dist.get_backend()}:all_reduce"
    check([event.name for event in seen.events() if event.name == name], [name], "events of all_reduce")


def _functional(place: Place) -> None:
    # Backends implement these by calls of their own, on lists of tensors.
    calls, group = torch.ops._c10d_functional, dist.group.WORLD.group_name
    for name, started, expected in (
        ("all_reduce", calls.all_reduce(place.mine(), "sum", group), place.one(3)),
        ("all_gather", calls.all_gather_into_tensor(place.mine(), 2, group), torch.tensor([1, 1, 2, 2])),
        ("reduce_scatter", calls.reduce_scatter_tensor(place.mine(), "sum", 2, group), place.one(3)[:1]),
    ):
        check(calls.wait_tensor(started), expected, f"functional {name}")


def _ddp(place: Place) -> None:
    _check_step(place, _wrapped(place))


def _builtin_comm_hooks(place: Place) -> None:
    for kind in (dist.BuiltinCommHookType.ALLREDUCE, dist.BuiltinCommHookType.FP16_COMPRESS):
        ddp = _wrapped(place)
        ddp._register_builtin_comm_hook(kind)
        _check_step(place, ddp)


def _wrapped(place: Place) -> Any:
    from torch.nn.parallel import DistributedDataParallel

    model = torch.nn.Linear(2, 1, bias=False).to(place.device)
    return DistributedDataParallel(model, device_ids=None if place.device.type == "cpu" else [place.device])


def _check_step(place: Place, ddp: Any) -> None:
    ddp(place.mine()).sum().backward()
    check(ddp.module.weight.grad, place.one(1.5).reshape(1, 2), "the averaged gradient")


_TRIES: Mapping[Capability, Callable[[Place], object]] = {
    Capability.SUB_GROUPS: _sub_groups,
    Capability.SPLIT_GROUP: _split_group,
    Capability.ASYNCHRONOUS: _asynchronous,
    Capability.FUTURES: _futures,
    Capability.POINT_TO_POINT: _point_to_point,
    Capability.TAGS: _tags,
    Capability.ANY_SOURCE: _any_source,
    Capability.BATCHES: _batches,
    Capability.COALESCING: _coalescing,
    Capability.COALESCED_TENSORS: _coalesced_tensors,
    Capability.UNEVEN_SPLITS: _uneven_splits,
    Capability.UNEVEN_LISTS: _uneven_lists,
    Capability.STACKED_OUTPUTS: _stacked_outputs,
    Capability.OBJECTS: _objects,
    Capability.SPARSE: _sparse,
    Capability.BARRIER: _barrier,
    Capability.MONITORED_BARRIER: _monitored_barrier,
    Capability.TIMEOUTS: _timeouts,
    Capability.SEQUENCE_NUMBERS: _sequence_numbers,
    Capability.PROFILING: _profiling,
    Capability.FUNCTIONAL: _functional,
    Capability.DDP: _ddp,
    Capability.BUILTIN_COMM_HOOKS: _builtin_comm_hooks,
}
