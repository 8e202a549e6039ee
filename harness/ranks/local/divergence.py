"""Makes a simulated rank's number, and raises an error where a comparison or truth value differs by rank.

One process takes only one branch, and torch's own answers are made for its operators, not for tests: ``rank
== 0`` is False for all ranks at once, ``torch.equal`` is True as soon as it is for one rank, and
``dist.get_rank()`` is that of the fake group (pytorch/pytorch#177190, pytorch/pytorch#189408). A test that
branches on them would skip what it is to check, and pass.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

from harness.errors import UsageError
from harness.outcomes import ranks_text
from harness.ranks.local.coordinates import coordinates_once
from harness.system.patching import replaced

ADVICE = (
    "one process plays all ranks of this test: say what only some ranks do with map_local_for_rank, compare "
    'with assertEqual, or take "local" out of the class\'s rank_modes'
)
_COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def simulated_int(by_rank: dict[int, int]) -> Any:
    """An integer that differs by rank; a comparison raises UsageError where its result differs by rank.

    Integers that are computed from it are torch's and compare as torch defines it.
    """
    import torch

    return torch.SymInt(_node_type()(by_rank))


@functools.cache
def _node_type() -> Any:
    from torch.distributed._local_tensor import LocalIntNode

    return type("RankNode", (LocalIntNode,), {c.__name__: _agreeing(c) for c in _COMPARISONS})


def _agreeing(compare: Callable[[int, int], bool]) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        import torch

        others = getattr(other, "_local_ints", None)
        answers = {
            rank: compare(own, other.maybe_as_int() if others is None else others[rank])
            for rank, own in self._local_ints.items()
        }
        if len(set(answers.values())) > 1:
            raise UsageError(f"a comparison with a rank is {_by_rank(answers)}, but {ADVICE}")
        return torch._C._get_constant_bool_symnode(next(iter(answers.values())))

    return method


def _by_rank(answers: dict[int, bool]) -> str:
    return " and ".join(
        f"{truth} on {ranks_text(rank for rank, answer in answers.items() if answer is truth)}"
        for truth in (True, False)
    )


@contextlib.contextmanager
def refusing_divergence(world_size: int) -> Iterator[None]:
    """A region in which a result that differs by rank is an error; it is entered before torch's mode.

    AssertionError for a truth value that differs by rank, UsageError for a comparison of ranks that does,
    however the test gets the rank (``self.rank``, ``dist.get_rank()``, a mesh). ``dist.get_rank()`` is
    replaced, because torch's is the fake group's (pytorch/pytorch#177190, pytorch/pytorch#189408), and a
    mesh's coordinates, because torch's take long (``coordinates``).
    """
    import torch.distributed as dist
    from torch.distributed import _local_tensor

    mesh, of_fake_group = _local_tensor._LocalDeviceMesh, dist.get_rank
    all_ranks = simulated_int({rank: rank for rank in range(world_size)})

    def get_rank(group: Any = None) -> Any:
        simulated = _local_tensor.enabled_local_tensor_mode() is not None
        return all_ranks if simulated and group in (None, dist.group.WORLD) else of_fake_group(group)

    with contextlib.ExitStack() as stack:
        for owner, name, replacement in (
            (dist, "get_rank", get_rank),
            (mesh, "get_coordinate", coordinates_once()),
            (mesh, "get_rank", _comparing(mesh.get_rank)),
            (mesh, "get_local_rank", _comparing(mesh.get_local_rank)),
            (_local_tensor, "_combine_any_rank_results", _one_truth(_local_tensor._combine_any_rank_results)),
        ):
            stack.enter_context(replaced(owner, name, replacement))
        yield


def _comparing(rank_in_mesh: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a mesh's method so that the rank it returns is a ``number``."""

    @functools.wraps(rank_in_mesh)
    def method(*args: Any, **kwargs: Any) -> Any:
        rank = rank_in_mesh(*args, **kwargs)
        by_rank = getattr(getattr(rank, "node", None), "_local_ints", None)
        return rank if by_rank is None else simulated_int(by_rank)

    return method


def _one_truth(combine: Callable[[dict[int, Any]], Any]) -> Callable[[dict[int, Any]], Any]:
    """Wraps torch's function that combines results by rank: truth values that differ are an error.

    torch treats them as integers.
    """

    @functools.wraps(combine)
    def combined(results: dict[int, Any]) -> Any:
        if len(set(map(id, results.values()))) > 1 and all(isinstance(r, bool) for r in results.values()):
            raise AssertionError(f"a truth value is {_by_rank(results)}, but {ADVICE}")
        return combine(results)

    return combined
