"""``run_to_end`` runs ranks that are threads from their start to their end."""

from __future__ import annotations

from harness.outcomes import RankOutcome
from harness.ranks.threads.rank import ThreadEnded
from harness.ranks.threads.rank_set import RankThreads

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
