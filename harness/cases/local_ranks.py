"""``LocalRanks``: what a case needs so that one process can play all its ranks, on local tensors."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from harness.launch import local

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# The mixin goes before a class that has RankOrchestration, and calls what it overrides there.
if TYPE_CHECKING:
    from harness.cases.multiprocess import RankOrchestration as _Ranks
else:
    _Ranks = object


class LocalRanks(_Ranks):
    """Makes a case with ranks that are processes fit for the rank mode "local"; goes before it in the bases.

    On local tensors ``self.rank`` is all ranks at once: an integer that differs by rank, as tensors do.
    """

    @property
    def is_local_tensor_enabled(self) -> bool:
        """Whether one process plays all ranks of this test."""
        return local.is_simulated(self.rank) or self.rank_modes == ("local",)

    def _get_local_tensor_mode(self) -> Any:
        """A context manager under which tensors are one for each rank; where they are, it does nothing."""
        return local.active_mode(self.world_size)

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        """Plays all ranks where that is asked for, one otherwise."""
        ranks = kwargs.pop(local.ARGUMENT, None)
        who = rank if ranks is None else local.rank_of(ranks)
        super()._run(who, test_name, file_name, parent_pipe, **kwargs)

    def _run_in_rank(self, channel: Any) -> None:
        """Around the test in a rank: the simulation."""
        with self._simulation():
            super()._run_in_rank(channel)

    def _simulation(self) -> contextlib.AbstractContextManager[Any]:
        if not local.is_simulated(self.rank):
            return contextlib.nullcontext()
        self._seed_rank()  # each rank starts with the generators as they are on entry
        return local.simulation(self.world_size)
