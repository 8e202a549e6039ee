"""Which rank mode a test runs in, by its class and the settings, and the strategy object of each mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.ranks.external.mode import ExternalRanks
from harness.ranks.job import Job, RunningRanks
from harness.ranks.local.mode import LocalTensorRanks
from harness.ranks.processes.mode import FreshRanks, PooledRanks
from harness.ranks.threads.mode import ThreadRanks
from harness.settings import Settings

# What starts the ranks of a job, by rank mode.
MODES: dict[str, Callable[[Job], RunningRanks]] = {
    "fresh": FreshRanks,
    "pooled": PooledRanks,
    "threads": ThreadRanks,
    "local": lambda job: LocalTensorRanks(job, PooledRanks),
    "external": ExternalRanks,
}
# The modes whose ranks are processes that a launcher starts.
LAUNCHED = ("fresh", "pooled")


def chosen_mode(allowed: Sequence[str], settings: Settings) -> str:
    """The mode that ``HARNESS_RANKS`` asks for where the class allows it, else the first that it allows.

    In place of a mode whose ranks a launcher starts it is "external" where somebody else has started these.
    """
    wanted = settings.ranks
    mode = wanted if wanted is not None and wanted in allowed else allowed[0]
    return "external" if settings.launcher == "external" and mode in LAUNCHED else mode
