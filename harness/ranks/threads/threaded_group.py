"""``ThreadedGroup``: torch's threaded process group, whose collectives are recorded and matched for its rank.

torch's group lacks ``reduce``, which this one has. The module imports ``torch.testing._internal``, because
torch keeps its group there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch.testing._internal.distributed import multi_threaded_pg as threaded

from harness.communication.record.arguments import METHODS, Arguments, of_method
from harness.compiler_state import uncompiled
from harness.ranks.threads.rank import current

BACKEND = "threaded"
# Methods of torch's group that are not collectives: they return a property or are called by collectives.
_NO_COLLECTIVE = frozenset({"size", "rank", "getBackendName", "exception_handle", "reset"})


def make_group(options: Any, _backend_options: Any) -> Any:
    """The threaded backend's constructor for ``torch.distributed``; returns when all members called it."""
    rank = current()
    if rank is None:
        raise RuntimeError('backend "threaded" connects the threads of a threaded test, and this is none')
    group = ThreadedGroup(options.group_rank, options.group_size)
    group.harness_rank, group.harness_name = rank, str(options.group_id)
    # None are told of the default group.
    members = tuple(options.global_ranks_in_group) or tuple(range(options.group_size))
    rank.owner.join_group(rank, group.harness_name, members)
    return group


def _collective(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wraps a method of torch's group in the region that records its rank's collective."""

    operation = METHODS.get(name, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        rank = self.harness_rank
        arguments = of_method(operation, name, args, kwargs) if name in METHODS else Arguments()
        with rank.owner.collective(rank, operation, self, arguments):
            return original(self, *args, **kwargs)

    return uncompiled(method)


def arriving(original: Callable[..., Any]) -> Any:
    """Wraps the method that torch's collectives call once their arguments are valid and before they wait."""

    def start(collective: Any, group: Any) -> Any:
        if isinstance(group, ThreadedGroup):
            group.harness_rank.owner.arrive()
        return original(collective, group)

    return staticmethod(start)


def _reduce(self: Any, tensors: list[Any], opts: Any) -> Any:
    """The ``reduce`` that torch's threaded group lacks: an all_reduce whose result only the root keeps."""
    total = [t.detach().clone() for t in tensors]
    all_reduce = dist.AllreduceOptions()
    all_reduce.reduceOp = opts.reduceOp
    work = threaded.ProcessLocalGroup.allreduce(self, total, all_reduce)
    if self.rank() == opts.rootRank:
        for mine, reduced in zip(tensors, total, strict=True):
            mine.detach().copy_(reduced)
    return work


def _methods() -> dict[str, Callable[..., Any]]:
    own = {
        name: value
        for name, value in vars(threaded.ProcessLocalGroup).items()
        if callable(value) and not name.startswith("_") and name not in _NO_COLLECTIVE
    }
    own.setdefault("reduce", _reduce)
    return {name: _collective(value, name) for name, value in own.items()}


def _name(self: Any) -> str:
    """The group's name, also once it is destroyed: torch looks it up where it has removed it by then."""
    return str(self._world().pg_names.get(self, self.harness_name))


ThreadedGroup: Any = type(
    "ThreadedGroup", (threaded.ProcessLocalGroup,), {**_methods(), "pg_name": property(_name)}
)


def register(creator: Callable[..., Any], *, extended: bool) -> None:
    """Makes ``creator`` the constructor of the threaded backend's groups."""
    dist.Backend.register_backend(BACKEND, creator, extended_api=extended, devices=["cpu", "cuda"])
