"""Cases whose backend gives one rank a wrong number, on ranks of each mode, and right cases beside them.

A kernel of ours stands between the process group's methods and the backend, and adds 1 to the second element
of what one rank has got or sends.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

from harness import DistributedTestBase, MultiProcContinuousTest, MultiThreadedTestCase, communication_check

LIAR = 1


@contextlib.contextmanager
def lying(operator: str, rank: int) -> Iterator[None]:
    """A region in which an operator of ``c10d`` gives rank ``LIAR`` of the calling ranks a wrong number."""

    def lie(proceed: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        found = proceed(*args, **kwargs)
        work = found[-1] if isinstance(found, tuple | list) else found
        dist.Work.unbox(work).wait()
        tensor = args[0]
        while isinstance(tensor, list | tuple):
            tensor = tensor[0]
        if rank == LIAR and tensor.numel() > 1:  # and not the length of a pickle
            tensor.view(-1)[1] += 1
        return found

    with _replaced(operator, lie):
        yield


@contextlib.contextmanager
def lying_send(rank: int) -> Iterator[None]:
    """A region in which rank ``LIAR`` sends another number than it is given."""

    def lie(proceed: Callable[..., Any], tensors: Any, *args: Any) -> Any:
        return proceed([t + torch.arange(len(t)) for t in tensors] if rank == LIAR else tensors, *args)

    with _replaced("send", lie):
        yield


@contextlib.contextmanager
def _replaced(operator: str, lie: Callable[..., Any]) -> Iterator[None]:
    """A region in which ``lie`` stands before an operator of ``c10d``; it gets how to go on."""
    key = torch._C.DispatchKey.BackendSelect
    original = getattr(torch.ops.c10d, operator).default

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        return lie(functools.partial(original.redispatch, keyset.remove(key)), *args, **kwargs)

    library = torch.library.Library("c10d", "IMPL")
    library.impl(operator, kernel, "BackendSelect", with_keyset=True)
    try:
        yield
    finally:
        library._destroy()


class FreshLies(DistributedTestBase):
    """Wrong numbers on fresh ranks."""

    world_size = 2

    def setUpRank(self) -> None:
        """Makes the default group, and gives each rank other numbers."""
        super().setUpRank()
        self.create_pg("cpu")
        self.mine = torch.tensor([1.0, 2.0]) * (self.rank + 1)

    def test_all_reduce(self) -> None:
        """A sum, after a right one."""
        dist.all_reduce(self.mine.clone())
        with lying("allreduce_", self.rank):
            dist.all_reduce(self.mine)

    def test_async(self) -> None:
        """A sum that is waited for later."""
        with lying("allreduce_", self.rank):
            work = dist.all_reduce(self.mine, async_op=True)
        assert work is not None
        work.wait()

    def test_written(self) -> None:
        """A right sum, until the rank writes to it before the wait."""
        tensor = torch.ones(2)
        work = dist.all_reduce(tensor, async_op=True)
        tensor.add_(1)
        work.wait()

    def test_polled(self) -> None:
        """A sum of which the test is told that it is over."""
        with lying("allreduce_", self.rank):
            work = dist.all_reduce(self.mine, async_op=True)
        assert work is not None
        while not work.is_completed():
            pass

    def test_functional(self) -> None:
        """A sum that C++ starts."""
        with lying("allreduce_", self.rank):
            _twice_the_sum(self.mine)

    def test_broadcast(self) -> None:
        """What the root gives."""
        with lying("broadcast_", self.rank):
            dist.broadcast(self.mine, 0)

    def test_objects(self) -> None:
        """A pickle whose second byte is another one, which the rank does not read."""
        found: list[Any] = [None] * self.world_size
        with contextlib.suppress(Exception), lying("allgather_", self.rank):
            dist.all_gather_object(found, "a text")

    def test_message(self) -> None:
        """A number that is another one when it is sent."""
        with lying_send(self.rank):
            if self.rank == LIAR:
                dist.send(self.mine, 0)
            else:
                dist.recv(self.mine, LIAR)

    def test_failing(self) -> None:
        """A test that finds the wrong number itself."""
        with lying("allreduce_", self.rank):
            dist.all_reduce(self.mine)
        self.assertEqual(self.mine, torch.tensor([3.0, 6.0]))

    @communication_check("values")
    def test_by_decorator(self) -> None:
        """A sum, in a test that asks for the check itself."""
        self.test_all_reduce()

    @communication_check("off")
    def test_off(self) -> None:
        """A sum, in a test that wants no check."""
        self.test_all_reduce()

    def test_right(self) -> None:
        """Collectives of several dtypes and kinds, messages, sub-groups, with nothing wrong."""
        for dtype in (torch.float16, torch.bfloat16, torch.int8, torch.bool, torch.complex64):
            dist.all_reduce(self.mine.to(dtype))
        dist.all_reduce(self.mine.clone(), op=dist.ReduceOp.AVG)
        dist.reduce(self.mine.clone(), 0)
        dist.all_to_all_single(torch.empty(2), self.mine)
        dist.reduce_scatter_tensor(torch.empty(1), self.mine)
        found: list[Any] = [None] * self.world_size
        dist.all_gather_object(found, {"rank": self.rank})
        _twice_the_sum(self.mine)
        pairs = [
            dist.P2POp(dist.isend, self.mine, 1 - self.rank),
            dist.P2POp(dist.irecv, torch.empty(2), 1 - self.rank),
        ]
        for work in dist.batch_isend_irecv(pairs):
            work.wait()
        alone = dist.new_group([1])
        if self.rank == 1:
            dist.all_reduce(self.mine, group=alone)


def _twice_the_sum(tensor: torch.Tensor) -> Any:
    return functional.all_reduce(tensor, "sum", dist.group.WORLD) * 2


class PooledLies(MultiProcContinuousTest):
    """Wrong numbers on ranks that are kept."""

    world_size = 2

    @classmethod
    def backend_str(cls) -> str:
        """The backend of the group."""
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        """The device of the group."""
        return "cpu"

    def test_all_reduce(self) -> None:
        """A sum of two ranks."""
        with lying("allreduce_", self.rank):
            dist.all_reduce(torch.tensor([1.0, 2.0]) * (self.rank + 1))

    def test_right(self) -> None:
        """A sum with nothing wrong."""
        dist.all_reduce(torch.ones(2))


class LiesOnThreads(MultiThreadedTestCase):
    """Sums on threads, by torch's threaded group, which the test of this case makes lie."""

    world_size = 2

    def setUp(self) -> None:
        """Starts the threads."""
        super().setUp()
        self._spawn_threads()

    def test_all_reduce(self) -> None:
        """A sum of two ranks."""
        dist.all_reduce(torch.tensor([1.0, 2.0]) * (self.rank + 1))

    def test_right(self) -> None:
        """A sum with nothing wrong."""
        dist.all_reduce(torch.ones(2))
