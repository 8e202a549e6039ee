"""Chooses the rank mode of a test from its class and ``HARNESS_RANKS``, and lists the class of each mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.ranks.external.mode import ExternalRanks
from harness.ranks.hosts.launcher import own_launcher
from harness.ranks.hosts.mode import FreshRanksOnHosts, PooledRanksOnHosts
from harness.ranks.job import Job, RunningRanks
from harness.ranks.local.mode import LocalTensorRanks
from harness.ranks.processes.choose_launcher import launcher
from harness.ranks.processes.launcher import Launcher
from harness.ranks.processes.mode import FreshRanks, PooledRanks
from harness.ranks.threads.mode import ThreadRanks
from harness.settings import Settings

# The callable that starts the ranks of a job, by rank mode.
MODES: dict[str, Callable[[Job], RunningRanks]] = {
    "fresh": lambda job: FreshRanksOnHosts(job) if job.settings.hosts else FreshRanks(job),
    "pooled": lambda job: PooledRanksOnHosts(job) if job.settings.hosts else PooledRanks(job),
    "threads": ThreadRanks,
    "local": lambda job: LocalTensorRanks(job, PooledRanks),
    "external": ExternalRanks,
}
# The modes whose ranks are processes that this process's launcher starts.
LAUNCHED = ("fresh", "pooled")


def chosen_mode(allowed: Sequence[str], settings: Settings) -> str:
    """The mode that ``HARNESS_RANKS`` asks for where the class allows it, else the class's first.

    With ``HARNESS_LAUNCHER=external`` the ranks exist already, so "external" replaces "fresh" and "pooled".
    """
    wanted = settings.ranks
    mode = wanted if wanted is not None and wanted in allowed else allowed[0]
    return "external" if settings.launcher == "external" and mode in LAUNCHED else mode


def launcher_of(settings: Settings) -> Launcher:
    """The launcher that starts this process's fresh and pooled ranks; LaunchError where none can."""
    return own_launcher() if settings.hosts else launcher(settings.launcher)
