"""``LocalRanks``: lets one process simulate all ranks of a case; helpers for code that differs by rank.

With the helpers the same test method runs in every rank mode.
"""

from __future__ import annotations

import contextlib
import unittest
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from harness.communication.history import history_of
from harness.errors import UsageError
from harness.ranks.local import rank as local

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# The mixin precedes a class with RankOrchestration among the bases, and calls the methods it overrides there.
if TYPE_CHECKING:
    from harness.cases.multiprocess import RankOrchestration as _Ranks
else:
    _Ranks = object


class LocalRanks(_Ranks):
    """Adds the rank mode "local" to a case whose ranks are processes; it precedes the case among the bases.

    On local tensors ``self.rank`` stands for all ranks: an integer that differs by rank, as tensors do. A
    test that branches on it gets a UsageError, since one process takes only one branch for all ranks.
    """

    @property
    def is_local_tensor_enabled(self) -> bool:
        """Whether one process simulates all ranks of this test."""
        return local.is_simulated(self.rank) or self.rank_modes == ("local",)

    def _get_local_tensor_mode(self) -> Any:
        """A context manager that activates ``LocalTensorMode``; it does nothing where the mode is active."""
        return local.active_mode(self.world_size)

    def assertEqual(self, x: Any, y: Any, msg: Any = None, **rules: Any) -> None:  # type: ignore[override]  # as harness.testcase has it
        """Calls the case's own method, once per rank for values that differ by rank."""
        self._on_each_rank(super().assertEqual, x, y, msg, rules)

    def assertNotEqual(self, x: Any, y: Any, msg: Any = None, **rules: Any) -> None:  # type: ignore[override]  # as harness.testcase has it
        """Calls the case's own method, once per rank for values that differ by rank: all must be unequal."""
        self._on_each_rank(super().assertNotEqual, x, y, msg, rules)

    def _on_each_rank(
        self, check: Callable[..., None], x: Any, y: Any, msg: Any, rules: dict[str, Any]
    ) -> None:
        differing = local.by_rank((x, y)) if local.is_simulated(self.rank) else None
        if differing is None:
            check(x, y, msg, **rules)
            return
        for rank, (own_x, own_y) in differing:
            where = f"on rank {rank} of the {self.world_size} that are simulated"
            with local.outside():
                check(own_x, own_y, _with(msg, where), **rules)

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        """Runs all ranks where ``_run`` gets their number as an argument, else one."""
        ranks = kwargs.pop(local.ARGUMENT, None)
        who = rank if ranks is None else local.rank_of(ranks)
        super()._run(who, test_name, file_name, parent_pipe, **kwargs)

    def _run_in_rank(self, channel: Any) -> None:
        """Runs the test, inside the simulation where all ranks are simulated."""
        with self._simulation():
            super()._run_in_rank(channel)

    @contextlib.contextmanager
    def _simulation(self) -> Iterator[None]:
        if not local.is_simulated(self.rank):
            yield
            return
        self._seed_rank()  # each rank starts with the generators as they are on entry
        with local.simulation(self.world_size), history_of(_NOBODY_CALLS):
            yield


_NOBODY_CALLS = "one process plays all ranks on local tensors, and none of them calls anything"


def _with(msg: Any, where: str) -> Callable[[str], str]:
    """The ``msg`` for an assertion that adds the place to its message."""

    def message(generated: str) -> str:
        told = msg(generated) if callable(msg) else generated if msg is None else f"{generated}\n{msg}"
        return f"{told}\n{where}"

    return message


def create_local_tensor_test_class(
    orig_cls: type, skipped_tests: Iterable[str] | None = None, base_class: type | None = None
) -> Any:
    """A copy of a class whose tests run on local tensors; those in ``skipped_tests`` are skipped.

    Assign it, in the module of ``orig_cls``, to that class's name followed by ``WithLocalTensor``, because
    ranks import it by that name. ``base_class`` exists for upstream's callers and changes nothing, since the
    mode is a property of the class. UsageError where ``orig_cls`` does not run on local tensors.
    """
    if "local" not in getattr(orig_cls, "rank_modes", ()):
        raise UsageError(f"{orig_cls.__name__} cannot run on local tensors: derive it from DTensorTestBase")
    name = f"{orig_cls.__name__}WithLocalTensor"
    skip = unittest.skip("not on local tensors")
    skipped = {test: skip(getattr(orig_cls, test)) for test in skipped_tests or ()}
    own = {"__module__": orig_cls.__module__, "__qualname__": name, "rank_modes": ("local",)}
    return type(name, (orig_cls,), {**own, **skipped})


def map_local_for_rank(rank: Any, func: Callable[[int], Any]) -> Any:
    """``func(rank)``, on local tensors once per rank; it may not call a collective."""
    return local.on_each_rank(func, rank)


def map_local_tensor_for_rank(tensor: Any, rank: Any, func: Callable[[Any, int], Any]) -> Any:
    """``func(tensor, rank)``, on local tensors once per rank; it may not call a collective."""
    return local.on_each_rank(func, tensor, rank)


def reduce_local_int(value: Any, func: Callable[[dict[int, int]], Any]) -> Any:
    """``func`` of the dictionary from rank to value of a simulated integer."""
    return func(value.node._local_ints)
