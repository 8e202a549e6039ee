"""What a rank mode is asked for and what it gives back: ``Job``, ``RunningRanks`` and ``JobResult``."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.outcomes import MergeRules, RankOutcome
from harness.protocol import Launch
from harness.settings import Settings

# The note of a job whose server never came to sweep what the ranks left.
UNSWEPT = "the server never said what these ranks left behind"


@dataclass(frozen=True, slots=True)
class Job:
    """One test as a rank mode needs to know it.

    ``request`` says what ranks import and run; ``case`` is the class (its ``_run`` is what every rank does);
    ``pool_key`` names what pooled ranks of this test may share, beyond world size and launcher;
    ``keeps_group`` where the process group is kept with them. ``timeout_s`` is the test's deadline.
    """

    case: Any
    test_id: str
    request: Launch
    settings: Settings
    timeout_s: float
    pool_key: Hashable = None
    keeps_group: bool = False


@dataclass(frozen=True, slots=True)
class JobResult:
    """What came of a job's ranks: every rank's outcome, and lines about processes that they left behind.

    ``server_lost`` where the server died under them, ``interrupted`` where Ctrl-C ended them;
    ``notes`` are further lines for whoever reads the verdict.
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
        """The ranks that are processes, by rank, as ``processes.rank_process.RankProcess``."""
        ...

    def join(self, rules: MergeRules) -> JobResult:
        """Waits until every rank is done or ended; called once."""
        ...

    def close(self) -> None:
        """Ends what still runs; nothing happens the second time."""
        ...

    def how_the_server_ended(self) -> str:
        """What became of the server, where ``JobResult.server_lost``."""
        ...
