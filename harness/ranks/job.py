"""The interface of a rank mode: ``Job`` (its request), ``RunningRanks`` (started ranks), ``JobResult``."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.outcomes import RankOutcome
from harness.protocol import Launch
from harness.rank_merging import MergeRules
from harness.settings import Settings

# The note of a job whose server did not report, after the ranks had ended, which processes they left.
UNSWEPT = "the server never said what these ranks left behind"


@dataclass(frozen=True, slots=True)
class Job:
    """One test, with what a rank mode needs to start and supervise its ranks.

    ``request`` says what ranks import and run; ``case`` is the class whose ``_run`` every rank calls;
    ``pool_key`` differs between tests that may not share pooled ranks, beyond world size and launcher;
    ``keeps_group`` says that pooled ranks keep their process group. ``timeout_s`` is the test's deadline;
    ``attempt`` is part of the names of the ranks' logs, where this is not the first attempt at the test.
    """

    case: Any
    test_id: str
    request: Launch
    settings: Settings
    timeout_s: float
    pool_key: Hashable = None
    keeps_group: bool = False
    attempt: str = ""


@dataclass(frozen=True, slots=True)
class JobResult:
    """The outcome of every rank of a job, and a line for each process that the ranks left behind.

    ``server_lost`` is True where the server died while the ranks ran, ``interrupted`` where Ctrl-C ended
    them; ``notes`` are further lines for the reader of the verdict.
    """

    outcomes: tuple[RankOutcome, ...]
    leaked: tuple[str, ...] = ()
    server_lost: bool = False
    interrupted: bool = False
    notes: tuple[str, ...] = ()


class RunningRanks(Protocol):
    """The started ranks of one job, as the test case holds them."""

    @property
    def processes(self) -> Sequence[Any]:
        """The rank processes in rank order, each a ``processes.rank_process.RankProcess``."""
        ...

    def join(self, rules: MergeRules) -> JobResult:
        """Waits until every rank has finished or was ended; called once."""
        ...

    def close(self) -> None:
        """Ends the ranks that still run; a second call does nothing."""
        ...

    def how_the_server_ended(self) -> str:
        """How the server ended, for a message where ``JobResult.server_lost``."""
        ...
