"""Fresh and pooled ranks on the hosts of a run: the modes of ``ranks.processes`` with another launcher.

The relay makes ranks elsewhere look like children of a server of this process, so rank set, supervisor and
pool are those of ranks on one host, and so are all verdicts.
"""

from __future__ import annotations

from harness.ranks.hosts.launcher import own_launcher
from harness.ranks.job import Job
from harness.ranks.processes.mode import FreshRanks, PooledRanks


class FreshRanksOnHosts(FreshRanks):
    """Ranks that are started for one test, on one or several hosts, and end with it."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, own_launcher())


class PooledRanksOnHosts(PooledRanks):
    """Ranks on one or several hosts that are kept after the test."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, own_launcher())
