"""``run_to_end`` runs ranks that are threads to their end, ``on_group`` with a default group of theirs."""

from __future__ import annotations

from collections.abc import Callable

import torch.distributed as dist

from harness.outcomes import RankOutcome, Status
from harness.ranks.direct_channel import DirectChannel
from harness.ranks.result import RankResult
from harness.ranks.threads import torch_groups
from harness.ranks.threads.rank import ThreadEnded
from harness.ranks.threads.rank_set import RankThreads
from harness.ranks.threads.threaded_group import BACKEND

# Seconds for another thread to reach a point; only a broken test waits this long.
ARRIVAL_S = 300.0


def run_to_end(ranks: RankThreads) -> list[RankOutcome]:
    """Starts the ranks, releases them once all have reported, closes, and returns the outcomes by rank."""
    ranks.start()
    try:
        outcomes: dict[int, RankOutcome] = {}
        gone: set[int] = set()
        while len(gone) < ranks.world_size:
            event = ranks.next_event(ARRIVAL_S)
            if isinstance(event, RankOutcome):
                outcomes[event.rank] = event
                if len(outcomes) == ranks.world_size:
                    ranks.release()
            else:
                assert isinstance(event, ThreadEnded), "no rank has anything to say"
                gone.add(event.rank)
    finally:
        abandoned = ranks.close()
    assert abandoned == (), abandoned
    return [outcomes[rank] for rank in range(ranks.world_size)]


def on_group(
    world_size: int,
    test: Callable[[int], object],
    backend: str = BACKEND,
    *,
    turns: bool = True,
) -> list[RankOutcome]:
    """Runs ``test(rank)`` in that many threads with a default group, and returns the outcomes by rank."""
    store = torch_groups.new_store()

    def body(rank: int, channel: DirectChannel) -> None:
        dist.init_process_group(backend, rank=rank, world_size=world_size, store=store)
        test(rank)
        channel.record(RankResult(Status.PASSED))

    return run_to_end(RankThreads(world_size, body, timeout_s=ARRIVAL_S, turns=turns))
