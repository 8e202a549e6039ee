"""Local-tensor ranks: one process that plays every rank of a test, on torch's ``LocalTensorMode``.

    parent: Local(job) -- a request for one process, with the number of ranks to play --> pool
    rank process: simulation(n) around the test; rank_of(n) is its rank, init_group(n) its group

A tensor made under the mode is one tensor for each simulated rank, a collective a computation among them.
No peer is needed, so nothing waits, and a test takes what its operators take.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError, UsageError
from harness.outcomes import MergeRules, RankOutcome, Status, merge
from harness.ranks.local.divergence import number, refused
from harness.ranks.processes.rank_set import per_rank_threads, time_for_another

if TYPE_CHECKING:
    from torch.distributed._local_tensor import LocalTensorMode

# The argument of ``_run`` that tells a process how many ranks to play.
ARGUMENT = "simulated_ranks"
NO_TIME = "its deadline leaves no time to try it in a new process"
POLLUTED = "state from an earlier test, without which this one passes"


class LocalTensorRanks:
    """Started ranks of one test, as a rank mode has them (``harness.ranks.modes.RunningRanks``).

    ``start`` brings one pooled process to life for a job; it is kept from test to test, because the first
    operators on DTensors cost a process a second and later ones a millisecond. A test that fails in a process
    which had run others is tried once more in a new one, where its deadline leaves as long again: if it fails
    there too, that is its outcome.
    """

    def __init__(self, job: Any, start: Callable[[Any], Any]) -> None:
        if not hasattr(job.case, "is_local_tensor_enabled"):
            raise UsageError(
                f"{job.case.__qualname__} cannot run on local tensors: derive it from DTensorTestBase, or "
                'take "local" out of its rank_modes'
            )
        self._world_size: int = job.request.world_size
        self._job = in_one_process(job)
        self._start = start
        self._started = time.monotonic()
        self._inner = start(self._job)

    @property
    def processes(self) -> Any:
        """The one process."""
        return self._inner.processes

    def join(self, rules: MergeRules) -> Any:
        """Waits for the process's report, which is every simulated rank's; a ``Watch``."""
        watched = self._inner.join(rules)
        if self._failed(watched, rules) and not self._inner.first_of_its_set:
            watched = self._tried_again(watched, rules)
        outcomes = (copy for outcome in watched.outcomes for copy in of_every_rank(outcome, self._world_size))
        return replace(watched, outcomes=tuple(outcomes))

    def close(self) -> None:
        """Ends the process if nobody joined it."""
        self._inner.close()

    def how_the_server_ended(self) -> str:
        """The end of the launcher's server in words."""
        return str(self._inner.how_the_server_ended())

    def _failed(self, watched: Any, rules: MergeRules) -> bool:
        ended = watched.server_lost or watched.interrupted
        return not ended and merge(watched.outcomes, rules).status.bad

    def _tried_again(self, first: Any, rules: MergeRules) -> Any:
        """What came of the test, which failed in a process that others had used, by a run in a new one."""
        left_s = time_for_another(self._job.timeout_s, time.monotonic() - self._started)
        if left_s is None:
            return _noted(first, NO_TIME)
        # The logs stay those of the first attempt.
        job = replace(
            self._job,
            request=replace(self._job.request, start_timeout_s=left_s),
            timeout_s=left_s,
            settings=replace(self._job.settings, log_dir=None),
        )
        try:
            self._inner = self._start(job)  # the pool replaces a process in which a test failed
            again = self._inner.join(rules)
        except HarnessError as error:
            return _noted(first, f"it could not be tried in a new process: {error}")
        if again.interrupted:
            return again
        if again.server_lost:
            return _noted(first, "it could not be tried in a new process: the server that starts them died")
        status = merge(again.outcomes, rules).status
        if status is Status.TIMED_OUT:
            return _noted(first, NO_TIME)
        if status.bad:
            return again
        return _noted(first, f"pollution: {POLLUTED}")


def in_one_process(job: Any) -> Any:
    """The job of the process that plays all ranks of ``job`` (a ``harness.ranks.modes.Job``)."""
    request, ranks = job.request, job.request.world_size
    played = replace(
        request,
        world_size=1,
        threads=per_rank_threads(request.environ, 1),
        kwargs={**request.kwargs, ARGUMENT: ranks},
    )
    return replace(job, request=played, pool_key=("local", ranks, job.pool_key))


def of_every_rank(outcome: RankOutcome, world_size: int) -> tuple[RankOutcome, ...]:
    """The process's outcome as that of each rank it played; what it printed is told once."""
    return tuple(
        replace(outcome, rank=rank, output=outcome.output if rank == 0 else "") for rank in range(world_size)
    )


def _noted(watched: Any, note: str) -> Any:
    """The same failure, of which the verdict says more."""
    return replace(watched, notes=(*watched.notes, note))


# -- in the process that plays the ranks


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
