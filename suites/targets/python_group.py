"""``PythonGroup``: a process group in Python that is right, and only takes messages from gloo.

Owns every collective and the order of its calls. A collective is an exchange of bytes between the ranks that
take part, and arithmetic on what has come. It runs in one thread a group, so a call with ``async_op=True``
returns before it has begun. gloo's own messages are the transport, and nothing else of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import FunctionType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from suites.targets.reduction import Reduction
from suites.targets.thread_work import ThreadWork

# gloo tells messages apart by tags; the exchanges of collectives are on one that no user's message has.
_EXCHANGE_TAG = 2**30
# What a reduction makes of the tensors of all ranks.
Arithmetic = Callable[[Sequence[Tensor]], Tensor]
# Handles that a group keeps alive: more than one step of a model starts here.
_KEPT_HANDLES = 256


class PythonGroup(dist.ProcessGroup):  # type: ignore[misc]  # torch gives its class no type
    """A process group whose methods take what ``torch.distributed`` passes to a group of C++."""

    def __init__(self, name: str, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._name = name
        self._rank, self._size, self._timeout = rank, size, timeout
        self._transport = dist.ProcessGroupGloo(dist.PrefixStore("transport", store), rank, size, timeout)
        self._group_name = self._description = ""
        self._calls = 0
        # Where C++ alone keeps a handle, as for DDP's join, its methods in Python are gone.
        self._handles: deque[ThreadWork] = deque(maxlen=_KEPT_HANDLES)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    def connect(self) -> None:
        """Returns when all ranks of the group are connected; to be called once, before any collective.

        A rank that leaves before that would break the transport under another that still connects.
        """
        self._meet(None).wait()
        self._calls = 0

    def getBackendName(self) -> str:
        return self._name

    # torch keeps the name and description of a group with its backends; this one has none.

    def setGroupName(self, name: str) -> None:
        self._group_name = name

    def getGroupName(self) -> str:
        return self._group_name

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    def getGroupDesc(self) -> str:
        return self._description

    # One rank's tensors go to all, to one, or part by part.

    def broadcast(self, tensors: list[Tensor], opts: Any) -> ThreadWork:
        root, (tensor,) = opts.rootRank, tensors
        if self._rank == root:
            return self._start(tensors, lambda: self._exchange(dict.fromkeys(self._others(), tensor), {}))
        return self._start(tensors, lambda: self._exchange({}, {root: tensor}))

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> ThreadWork:
        root, (output,) = opts.rootRank, outputs
        if self._rank != root:
            return self._start(outputs, lambda: self._exchange({}, {root: output}))
        parts = self._one_each(inputs[0], "scatter")
        return self._start(outputs, lambda: self._exchange(dict(enumerate(parts)), {root: output}))

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> ThreadWork:
        root, (tensor,) = opts.rootRank, inputs
        places = dict(enumerate(self._one_each(outputs[0], "gather"))) if self._rank == root else {}
        return self._start(list(places.values()), lambda: self._exchange({root: tensor}, places))

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> ThreadWork:
        (tensor,), places = inputs, self._one_each(outputs[0], "allgather")
        return self._start(places, lambda: self._exchange(self._to_all(tensor), dict(enumerate(places))))

    def all_gather_single(self, output: Tensor, tensor: Tensor, opts: Any = None) -> ThreadWork:
        if output.numel() != tensor.numel() * self._size:
            raise ValueError(f"an output of {output.numel()} elements for {self._size} inputs")

        def run() -> None:
            # A flat copy has the blocks of all ranks, joined or stacked as the output is.
            whole = torch.empty(output.numel(), dtype=output.dtype, device=output.device)
            self._exchange(self._to_all(tensor), dict(enumerate(whole.chunk(self._size))))
            output.copy_(whole.view(output.shape))

        return self._start([output], run)

    # All ranks' tensors are reduced, for all, for one, or part by part.

    def allreduce(self, tensors: list[Tensor], opts: Any) -> ThreadWork:
        op = Reduction(opts.reduceOp, tensors)

        def run() -> None:
            for tensor in tensors:
                self._reduce_to_all(tensor, op)

        return self._start(tensors, run)

    def reduce(self, tensors: list[Tensor], opts: Any) -> ThreadWork:
        op, root, (tensor,) = Reduction(opts.reduceOp, tensors), opts.rootRank, tensors

        def run() -> None:
            held = [torch.empty_like(tensor) for _ in range(self._size)] if self._rank == root else []
            self._exchange({root: tensor}, dict(enumerate(held)))
            if held:
                tensor.copy_(op(held))

        return self._start(tensors, run)

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> ThreadWork:
        op, (output,) = Reduction(opts.reduceOp, outputs), outputs
        parts = self._one_each(inputs[0], "reduce_scatter")
        return self._start(outputs, lambda: self._reduce_parts(output, parts, op))

    def reduce_scatter_single(self, output: Tensor, tensor: Tensor, opts: Any) -> ThreadWork:
        if tensor.numel() != output.numel() * self._size:
            raise ValueError(f"an input of {tensor.numel()} elements for {self._size} outputs")
        op = Reduction(opts.reduceOp, [output])
        return self._start([output], lambda: self._reduce_parts(output, _cut(tensor, self._size), op))

    # Every rank has a part for every rank.

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> ThreadWork:
        places, parts = self._one_each(outputs, "alltoall"), self._one_each(inputs, "alltoall")
        return self._start(outputs, lambda: self._exchange(dict(enumerate(parts)), dict(enumerate(places))))

    def all_to_all_single(
        self, output: Tensor, tensor: Tensor, received: list[int], sent: list[int], opts: Any = None
    ) -> ThreadWork:
        places, parts = self._rows(output, received), self._rows(tensor, sent)

        def run() -> None:
            arrived = [torch.empty_like(place) for place in places]
            self._exchange(dict(enumerate(parts)), dict(enumerate(arrived)))
            for place, part in zip(places, arrived, strict=True):
                place.copy_(part)

        return self._start([output], run)

    # Several tensors in one call.

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any) -> ThreadWork:
        return self.allreduce(tensors, opts)

    def allgather_coalesced(
        self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None
    ) -> ThreadWork:
        """``outputs[rank][turn]`` gets what the rank has as ``inputs[turn]``."""
        places = [tensor for tensors in outputs for tensor in tensors]

        def run() -> None:
            for turn, tensor in enumerate(inputs):
                self._exchange(self._to_all(tensor), {rank: row[turn] for rank, row in enumerate(outputs)})

        return self._start(places, run)

    def all_gather_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> ThreadWork:
        return [self.all_gather_single(*pair, opts) for pair in zip(outputs, inputs, strict=True)][-1]

    def reduce_scatter_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> ThreadWork:
        opts = opts or dist.ReduceScatterOptions()
        return [self.reduce_scatter_single(*pair, opts) for pair in zip(outputs, inputs, strict=True)][-1]

    # Their names before torch 2.13.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    alltoall_base = all_to_all_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # Messages, and what moves no tensor.

    def send(self, tensors: list[Tensor], dst: int, tag: int) -> Any:
        return self._transport.send(tensors, dst, tag)

    def recv(self, tensors: list[Tensor], src: int, tag: int) -> Any:
        return self._transport.recv(tensors, src, tag)

    def recv_anysource(self, tensors: list[Tensor], tag: int) -> Any:
        return self._transport.recv_anysource(tensors, tag)

    def barrier(self, opts: Any = None) -> ThreadWork:
        return self._meet(getattr(opts, "timeout", None))

    def _set_sequence_number_for_group(self) -> None:
        self._calls = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._calls

    def shutdown(self) -> None:
        self._thread.shutdown()

    def abort(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    # How it is done.

    def _meet(self, timeout: timedelta | None) -> ThreadWork:
        word = torch.zeros(1)
        op = Reduction(dist.ReduceOp.SUM, [word])
        return self._start([], lambda: self._reduce_to_all(word, op), timeout)

    def _start(
        self, outputs: Sequence[Tensor], run: Callable[[], object], timeout: timedelta | None = None
    ) -> ThreadWork:
        """Runs in the group's thread, after all that was started before.

        ``timeout`` is the call's own; torch has a negative one for none.
        """
        self._calls += 1
        limit = timeout if timeout is not None and timeout > timedelta(0) else self._timeout

        def body() -> None:
            # Only in inference mode may a thread write to tensors of either kind; autograd sees none of it.
            with torch.inference_mode():
                run()

        work = ThreadWork(self._thread.submit(body), outputs, limit)
        self._handles.append(work)
        return work

    def _exchange(self, sent: dict[int, Tensor], received: dict[int, Tensor]) -> None:
        """Sends and receives at once, a tensor a rank; returns when all are done. Empty ones are not sent."""
        mine = sent.get(self._rank)
        if mine is not None and self._rank in received:
            place = received[self._rank]
            place.copy_(mine.reshape(place.shape))
        buffers = {
            rank: torch.empty(place.numel() * place.itemsize, dtype=torch.uint8)
            for rank, place in received.items()
            if rank != self._rank and place.numel()
        }
        kept = {
            rank: _bytes(tensor) for rank, tensor in sent.items() if rank != self._rank and tensor.numel()
        }
        works = [
            *(self._transport.recv([buffer], rank, _EXCHANGE_TAG) for rank, buffer in buffers.items()),
            *(self._transport.send([each], rank, _EXCHANGE_TAG) for rank, each in kept.items()),
        ]
        for work in works:
            work.wait(self._timeout)
        for rank, buffer in buffers.items():
            place = received[rank]
            place.copy_(buffer.view(place.dtype).view(place.shape))

    def _reduce_to_all(self, tensor: Tensor, op: Arithmetic) -> None:
        held = [torch.empty_like(tensor) for _ in range(self._size)]
        self._exchange(self._to_all(tensor), dict(enumerate(held)))
        tensor.copy_(op(held))

    def _reduce_parts(self, output: Tensor, parts: Sequence[Tensor], op: Arithmetic) -> None:
        held = [torch.empty_like(output) for _ in range(self._size)]
        self._exchange(dict(enumerate(parts)), dict(enumerate(held)))
        output.copy_(op(held))

    def _others(self) -> list[int]:
        return [rank for rank in range(self._size) if rank != self._rank]

    def _to_all(self, tensor: Tensor) -> dict[int, Tensor]:
        return dict.fromkeys(range(self._size), tensor)

    def _one_each(self, tensors: list[Tensor], call: str) -> list[Tensor]:
        if len(tensors) != self._size:
            raise ValueError(f"{call} has {len(tensors)} tensors for {self._size} ranks")
        return tensors

    def _rows(self, tensor: Tensor, counts: list[int]) -> list[Tensor]:
        """The parts of a tensor along dimension 0: of these sizes, or of equal sizes where there are none."""
        if not counts:
            return _cut(tensor, self._size)
        if len(counts) != self._size or sum(counts) != tensor.shape[0]:
            raise ValueError(f"{counts} are no parts of {tensor.shape[0]} rows for {self._size} ranks")
        return list(tensor.split(counts))


def _bytes(tensor: Tensor) -> Tensor:
    """What a tensor holds, as one row of bytes of the CPU; a view where it is there and contiguous."""
    return tensor.detach().cpu().resolve_conj().contiguous().reshape(-1).view(torch.uint8)


def _cut(tensor: Tensor, parts: int) -> list[Tensor]:
    """Equal parts along dimension 0; ValueError where it does not divide."""
    if tensor.shape[0] % parts:
        raise ValueError(f"{tensor.shape[0]} rows are no {parts} equal parts")
    return list(tensor.split(tensor.shape[0] // parts)) if tensor.shape[0] else [tensor] * parts


def _keep_from_tracing(*classes: type) -> None:
    """Has the compiler leave the methods of these classes alone: what they send is no part of a graph."""
    from torch._C._dynamo import eval_frame

    skip = eval_frame._FrameAction.SKIP
    for each in (method for cls in classes for method in vars(cls).values()):
        if isinstance(each, FunctionType):
            eval_frame.set_code_exec_strategy(each.__code__, eval_frame._FrameExecStrategy(skip, skip))


_keep_from_tracing(PythonGroup, ThreadWork)


def register(name: str, kind: type[PythonGroup] = PythonGroup, device_type: str = "cpu") -> None:
    """Makes a backend of this name known to torch, for a device type, whose groups are of this class."""

    def create(store: dist.Store, rank: int, size: int, timeout: timedelta) -> PythonGroup:
        group = kind(name, store, rank, size, timeout)
        group.connect()
        return group

    dist.Backend.register_backend(name, create, devices=[device_type])
