"""What runs in the process that plays every rank of a test: torch's ``LocalTensorMode`` around the test.

``simulation(n)`` stands around the test, ``rank_of(n)`` is its rank and ``init_group(n)`` makes its group. A
tensor made under the mode is one tensor for each simulated rank, a collective a computation among them. No
peer is needed, so nothing waits, and a test takes what its operators take.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from harness.ranks.local.divergence import number, refused

if TYPE_CHECKING:
    from torch.distributed._local_tensor import LocalTensorMode

# The argument of ``_run`` that tells a process how many ranks to play.
ARGUMENT = "simulated_ranks"


def rank_of(world_size: int) -> Any:
    """All ranks at once: an integer that is ``r`` on rank ``r``.

    A comparison whose answer differs by rank raises UsageError.
    """
    return number({rank: rank for rank in range(world_size)})


def is_simulated(rank: object) -> bool:
    """Whether ``rank`` is ``rank_of``'s, and not a number."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(rank, torch.SymInt)


@contextlib.contextmanager
def simulation(world_size: int) -> Iterator[LocalTensorMode]:
    """A region in which each tensor is one for each rank; every rank starts with the generators as they are.

    Where a test asks for one answer and ranks have two, it raises; see ``answers``. Profiler scopes are off
    in it: their operators know no local tensors.
    """
    import torch
    from torch.distributed._local_tensor import LocalTensorMode

    torch.autograd._enable_record_function(False)
    try:
        with refused(world_size), LocalTensorMode(frozenset(range(world_size))) as mode:
            yield mode
    finally:
        torch.autograd._enable_record_function(True)


def active_mode(world_size: int) -> Any:
    """The region that the process is in, as a context manager that changes nothing; a new one outside."""
    from torch.distributed._local_tensor import LocalTensorMode, local_tensor_mode

    mode = local_tensor_mode()
    return LocalTensorMode(frozenset(range(world_size))) if mode is None else contextlib.nullcontext(mode)


def init_group(world_size: int, rank: int = 0) -> None:
    """Makes the default process group: torch's fake one, which has no peers and computes nothing itself."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=rank, world_size=world_size, store=FakeStore())


def outside() -> contextlib.AbstractContextManager[Any]:
    """A region with ordinary tensors, for what is the same on every rank."""
    from torch.distributed._local_tensor import maybe_disable_local_tensor_mode

    region: contextlib.AbstractContextManager[Any] = maybe_disable_local_tensor_mode()
    return region


def by_rank(values: Any) -> list[tuple[int, Any]] | None:
    """(rank, its values) for each simulated rank; None where nothing in the tree ``values`` differs by rank.

    Each rank gets a DTensor of its own part.
    """
    import torch
    from torch.distributed._local_tensor import LocalIntNode, LocalTensor
    from torch.distributed.tensor import DTensor
    from torch.utils._pytree import tree_leaves, tree_map

    def own(leaf: Any) -> dict[int, Any] | None:
        if isinstance(leaf, LocalTensor):
            parts: dict[int, Any] = leaf._local_tensors
            return parts
        if isinstance(leaf, DTensor):
            shards = own(leaf._local_tensor) or {}
            return {rank: DTensor(shard, leaf._spec, requires_grad=False) for rank, shard in shards.items()}
        simulated = isinstance(leaf, torch.SymInt) and isinstance(leaf.node, LocalIntNode)
        return leaf.node._local_ints if simulated else None

    ranks = {rank for leaf in tree_leaves(values) for rank in own(leaf) or ()}
    if not ranks:
        return None

    def part(rank: int) -> Callable[[Any], Any]:
        return lambda leaf: leaf if (parts := own(leaf)) is None else parts.get(rank)

    return [(rank, tree_map(part(rank), values)) for rank in sorted(ranks)]


def on_each_rank(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)`` on each simulated rank, with that rank's integers and tensors; once elsewhere.

    For code that branches on its rank. It may not call a collective.
    """
    from torch.distributed._local_tensor import maybe_run_for_local_tensor

    return maybe_run_for_local_tensor(function)(*args)
