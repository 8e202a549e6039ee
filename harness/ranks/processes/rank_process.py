"""``RankProcess``: a rank as upstream's tests use it in ``self.processes``."""

from __future__ import annotations

import signal

from harness.ranks.processes.rank_set import RankSet


class RankProcess:
    """One rank of a running test, with those methods of ``multiprocessing.Process`` that tests use.

    ``exitcode`` is None until the supervisor has seen the rank end.
    """

    def __init__(self, ranks: RankSet, rank: int) -> None:
        self._ranks = ranks
        self.rank = rank
        self.name = f"process {rank}"
        self.pid = ranks.pids[rank]
        self.exitcode: int | None = None

    def is_alive(self) -> bool:
        """Whether the supervisor has not yet seen the rank end."""
        return self.exitcode is None

    def terminate(self) -> None:
        """Sends SIGTERM; does nothing where the rank has ended."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Sends SIGKILL; does nothing where the rank has ended."""
        self._send(signal.SIGKILL)

    def _send(self, signum: int) -> None:
        if self.is_alive() and not self._ranks.closed:
            self._ranks.signal(self.rank, signum)

    def __repr__(self) -> str:
        return f"<RankProcess {self.rank} pid={self.pid} exitcode={self.exitcode}>"
