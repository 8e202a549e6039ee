"""The backend of ``python_gloo`` with one fault each: targets that are wrong, and which cells say so.

    python run_tests.py --plugin suites.targets.faulty --backend all_reduce_averages --report conformance c10d

``FAULTS`` has the faults and, for each, the cells of the conformance matrix that it must make wrong; all
others must stay right. ``tools/faulty_targets.py`` tries all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from suites.targets import python_gloo
from suites.targets.python_group import Arithmetic, PythonGroup, register
from suites.targets.thread_work import ThreadWork

# The name of a cell, and its coordinates.
Reddens = Callable[[str, Mapping[str, str]], bool]


class AllReduceAverages(PythonGroup):
    """SUM of ``all_reduce`` is divided by the number of ranks."""

    def allreduce(self, tensors: list[Tensor], opts: Any) -> ThreadWork:
        if opts.reduceOp == dist.ReduceOp.SUM:
            opts.reduceOp = dist.ReduceOp.AVG
        return super().allreduce(tensors, opts)


class Bfloat16InFloat8(PythonGroup):
    """``all_reduce`` of bfloat16 keeps two of its seven bits after the point."""

    def allreduce(self, tensors: list[Tensor], opts: Any) -> ThreadWork:
        for tensor in tensors:
            if tensor.dtype is torch.bfloat16:
                tensor.detach().copy_(tensor.to(torch.float8_e5m2))
        return super().allreduce(tensors, opts)


class ReduceScatterDropsLastRank(PythonGroup):
    """The part of the last rank is left out of every ``reduce_scatter``."""

    def _reduce_parts(self, output: Tensor, parts: Sequence[Tensor], op: Arithmetic) -> None:
        super()._reduce_parts(output, parts, lambda held: op(held[:-1] or held))


class ReduceOnNextRank(PythonGroup):
    """The result of ``reduce`` is on the rank after the one that asked for it."""

    def reduce(self, tensors: list[Tensor], opts: Any) -> ThreadWork:
        opts.rootRank = (opts.rootRank + 1) % self._size
        return super().reduce(tensors, opts)


class BroadcastFromNextRank(PythonGroup):
    """``broadcast`` sends what the rank after the root holds."""

    def broadcast(self, tensors: list[Tensor], opts: Any) -> ThreadWork:
        opts.rootRank = (opts.rootRank + 1) % self._size
        return super().broadcast(tensors, opts)


class ScatterShifted(PythonGroup):
    """Each rank gets the part of the rank after it from ``scatter``."""

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> ThreadWork:
        return super().scatter(outputs, [[*parts[1:], *parts[:1]] for parts in inputs], opts)


class AllGatherReversed(PythonGroup):
    """``all_gather`` lists the ranks from the last to the first."""

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> ThreadWork:
        return super().allgather([each[::-1] for each in outputs], inputs, opts)


class AllToAllMixesPeers(PythonGroup):
    """What goes to the first rank and to the second is swapped in ``all_to_all``, in parts of equal sizes."""

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> ThreadWork:
        return super().alltoall(outputs, _swapped(inputs), opts)

    def all_to_all_single(
        self, output: Tensor, tensor: Tensor, received: list[int], sent: list[int], opts: Any = None
    ) -> ThreadWork:
        if not sent:
            tensor = torch.cat(_swapped(tensor.detach().chunk(self._size)))
        return super().all_to_all_single(output, tensor, received, sent, opts)


class TagsIgnored(PythonGroup):
    """A message is taken in the order in which it was sent, whatever its tag."""

    def send(self, tensors: list[Tensor], dst: int, tag: int) -> Any:
        return super().send(tensors, dst, 0)

    def recv(self, tensors: list[Tensor], src: int, tag: int) -> Any:
        return super().recv(tensors, src, 0)


class BarrierDoesNotWait(PythonGroup):
    """``barrier`` returns at once."""

    def barrier(self, opts: Any = None) -> ThreadWork:
        return self._start([], lambda: None)


class WaitsForNothing(PythonGroup):
    """A call with ``async_op=True`` is left for the next call to do, and waiting for it returns at once."""

    def __init__(self, name: str, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(name, store, rank, size, timeout)
        self._leave = False
        self._left: list[Callable[[], object]] = []

    def _start(
        self, outputs: Sequence[Tensor], run: Callable[[], object], timeout: timedelta | None = None
    ) -> ThreadWork:
        due, self._left = self._left, []
        (self._left if self._leave and outputs else due).append(run)
        return super()._start(outputs, lambda: [each() for each in due], timeout)


def _leaving(name: str) -> Callable[..., ThreadWork]:
    """A method of ``WaitsForNothing`` that leaves the call, if it is asynchronous, for the next one to do."""

    def method(self: WaitsForNothing, *arguments: Any) -> ThreadWork:
        self._leave = getattr(arguments[-1], "asyncOp", False)
        try:
            work: ThreadWork = getattr(PythonGroup, name)(self, *arguments)
            return work
        finally:
            self._leave = False

    return method


for _name in (
    *("broadcast", "scatter", "gather", "allgather", "all_gather_single", "_allgather_base"),
    *("allreduce", "reduce", "reduce_scatter", "reduce_scatter_single", "_reduce_scatter_base"),
    *("alltoall", "all_to_all_single", "alltoall_base"),
):
    setattr(WaitsForNothing, _name, _leaving(_name))


class SubGroupsBackwards(PythonGroup):
    """The ranks of a sub-group are counted from its last."""

    def __init__(self, name: str, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        is_sub_group = dist.is_initialized()
        super().__init__(name, store, size - 1 - rank if is_sub_group else rank, size, timeout)


def _swapped(parts: Sequence[Tensor]) -> list[Tensor]:
    """The parts with the first two swapped."""
    return [*parts[1::-1], *parts[2:]]


@dataclass(frozen=True, slots=True)
class Fault:
    """A backend with a fault, under its name, and whether a cell must be wrong under it.

    ``certain``: all of the cells; else some of them, because it is a matter of time which ones are.
    """

    name: str
    kind: type[PythonGroup]
    reddens: Reddens
    certain: bool = True

    @property
    def what(self) -> str:
        """What is wrong, in words."""
        return (self.kind.__doc__ or "").strip().rstrip(".")


def _cells(*names: str, **wanted: str) -> Reddens:
    """Whether a cell is of one of these names and has these coordinates."""

    def reddens(name: str, at: Mapping[str, str]) -> bool:
        return name in names and all(at.get(each) == value for each, value in wanted.items())

    return reddens


_ROOTED = ("broadcast", "scatter", "gather", "reduce")
_GATHERED = ("all_gather", "all_gather_into_tensor", "all_gather_single")
_SCATTERED = ("reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single")
_EXCHANGED = ("all_to_all", "all_to_all_single")
# These tell which rank is which; in the others all ranks are alike.
_BY_RANK = (*_ROOTED, *_GATHERED, *_SCATTERED, *_EXCHANGED, "all_gather_coalesced", "send", "tags")
_ALL_REDUCE = ("all_reduce", "all_reduce_coalesced")

FAULTS = (
    Fault("all_reduce_averages", AllReduceAverages, _cells(*_ALL_REDUCE, reduction="sum")),
    Fault("bfloat16_in_float8", Bfloat16InFloat8, _cells(*_ALL_REDUCE, dtype="bfloat16")),
    Fault("reduce_scatter_drops_last_rank", ReduceScatterDropsLastRank, _cells(*_SCATTERED)),
    Fault("reduce_on_next_rank", ReduceOnNextRank, _cells("reduce")),
    Fault("broadcast_from_next_rank", BroadcastFromNextRank, _cells("broadcast")),
    Fault("scatter_shifted", ScatterShifted, _cells("scatter")),
    Fault("all_gather_reversed", AllGatherReversed, _cells("all_gather")),
    Fault("all_to_all_mixes_peers", AllToAllMixesPeers, _cells(*_EXCHANGED)),
    Fault("tags_ignored", TagsIgnored, _cells("tags")),
    # A rank that comes late may come just in time on a busy machine.
    Fault("barrier_does_not_wait", BarrierDoesNotWait, _cells("barrier"), certain=False),
    Fault(
        "waits_for_nothing",
        WaitsForNothing,
        _cells("all_reduce", *_ROOTED, *_GATHERED, *_SCATTERED, *_EXCHANGED, way="async"),
    ),
    Fault("sub_groups_backwards", SubGroupsBackwards, _cells(*_BY_RANK, group="sub-groups")),
)
for _fault in FAULTS:
    register(_fault.name, _fault.kind)

TARGETS = tuple(replace(python_gloo.TARGET, backend=fault.name) for fault in FAULTS)
