"""Process groups without peers: ``FakeStore`` for torch's fake group, ``with_fake_comms`` for one rank alone.

In both, one process is a rank of a world that is not there. Collectives of the fake group return at once and
compute nothing.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

# Importing it makes "fake" a backend that init_process_group knows.
import torch.testing._internal.distributed.fake_pg


class FakeStore(dist.Store):  # type: ignore[misc]  # mypy knows nothing of torch's classes
    """The store of a fake process group, which asks it nothing.

    As in ``dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())``.
    """


@contextlib.contextmanager
def with_dist(rank: int = 0, world_size: int = 2) -> Iterator[None]:
    """A region in which this process is a rank of a fake process group; it is destroyed afterwards.

    RuntimeError where there is a default group already.
    """
    if dist.is_initialized():
        raise RuntimeError("there is a process group already: with_dist makes the default one")
    dist.init_process_group("fake", rank=rank, world_size=world_size, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def with_fake_comms(func: Any = None, rank: int = 0, world_size: int = 2) -> Any:
    """Runs a test method as a rank of a fake process group; used bare or with arguments."""
    if func is None:
        return functools.partial(with_fake_comms, rank=rank, world_size=world_size)

    @functools.wraps(func)
    def within(*args: Any, **kwargs: Any) -> Any:
        with with_dist(rank, world_size):
            return func(*args, **kwargs)

    return within


class DummyProcessGroup:
    """An object with a rank and a size in place of a process group; its ``allreduce`` is done at once."""

    def __init__(self, rank: int, size: int) -> None:
        self._rank, self._size = rank, size

    def rank(self) -> int:
        """This rank's number in the group."""
        return self._rank

    def size(self) -> int:
        """The number of ranks."""
        return self._size

    def allreduce(self, *args: Any, **kwargs: Any) -> Any:
        """A handle that is done; ``get_future()`` of it has the value 1. The tensors are left as they are."""
        done: Any = torch.futures.Future()
        done.set_result(1)
        return mock.Mock(wait=mock.Mock(return_value=True), get_future=mock.Mock(return_value=done))
