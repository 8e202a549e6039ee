"""The simulated ranks inside their process: torch's ``LocalTensorMode``, the rank, the fake process group.

``simulation(n)`` is the region around the test, ``rank_of(n)`` is its rank and ``init_group(n)`` makes its
process group. A tensor made under the mode holds one tensor for each simulated rank, and a collective is a
computation among those. There are no peers to wait for, so a test takes only as long as its operators.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from harness.ranks.local.divergence import refusing_divergence, simulated_int

if TYPE_CHECKING:
    from torch.distributed._local_tensor import LocalTensorMode

# The argument of ``_run`` that holds the number of ranks to simulate.
ARGUMENT = "simulated_ranks"


def rank_of(world_size: int) -> Any:
    """The rank of all simulated ranks: an integer that is ``r`` on rank ``r``.

    A comparison whose result differs by rank raises UsageError.
    """
    return simulated_int({rank: rank for rank in range(world_size)})


def is_simulated(rank: object) -> bool:
    """Whether ``rank`` is the result of ``rank_of`` and not an ordinary integer."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(rank, torch.SymInt)


@contextlib.contextmanager
def simulation(world_size: int) -> Iterator[LocalTensorMode]:
    """A region in which each tensor holds one tensor per rank; all ranks start with the same random state.

    A test that needs one value where ranks have two gets an error; see ``divergence``. Profiler scopes are
    off in the region, because their operators do not support local tensors.
    """
    import torch
    from torch.distributed._local_tensor import LocalTensorMode

    torch.autograd._enable_record_function(False)
    try:
        with refusing_divergence(world_size), LocalTensorMode(frozenset(range(world_size))) as mode:
            yield mode
    finally:
        torch.autograd._enable_record_function(True)


def active_mode(world_size: int) -> Any:
    """The active ``LocalTensorMode`` as a context manager without effect, else a new mode."""
    from torch.distributed._local_tensor import LocalTensorMode, local_tensor_mode

    mode = local_tensor_mode()
    return LocalTensorMode(frozenset(range(world_size))) if mode is None else contextlib.nullcontext(mode)


def init_group(world_size: int, rank: int = 0) -> None:
    """Makes the default process group: torch's fake one, which has no peers and computes nothing itself."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=rank, world_size=world_size, store=FakeStore())


def outside() -> contextlib.AbstractContextManager[Any]:
    """A region with ordinary tensors, for values that are the same on every rank."""
    from torch.distributed._local_tensor import maybe_disable_local_tensor_mode

    region: contextlib.AbstractContextManager[Any] = maybe_disable_local_tensor_mode()
    return region


def by_rank(values: Any) -> list[tuple[int, Any]] | None:
    """A list of (rank, that rank's values); None where nothing in the tree ``values`` differs by rank.

    A DTensor becomes one DTensor per rank, which holds that rank's shard.
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
    """Calls ``function(*args)`` once per simulated rank, with that rank's values; once elsewhere.

    For code that branches on its rank. The function may not call a collective.
    """
    from torch.distributed._local_tensor import maybe_run_for_local_tensor

    return maybe_run_for_local_tensor(function)(*args)
