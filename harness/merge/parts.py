"""``Part``: one directory of a run that is to be merged, as its journal describes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.base import RunInfo
from harness.runner import journal
from harness.runner.journal import EarlierRun


@dataclass(frozen=True, slots=True)
class Part:
    """One attempt at a shard, or at the whole run where that is not split.

    ``directory`` is as the user wrote it. ``number`` is the shard's, 1 where there are no shards.
    ``selection`` are the ids of all tests of the whole run, in order.
    """

    directory: Path
    run: EarlierRun
    number: int
    selection: tuple[str, ...]

    @property
    def info(self) -> RunInfo:
        """What the journal says of the run."""
        return self.run.info

    @property
    def records(self) -> tuple[TestRecord, ...]:
        """The attempts at tests that came to an end, in the order in which they did."""
        return tuple(record for record in self.run.records if record.status is not Status.ENDED)

    @property
    def name(self) -> str:
        """The shard and the directory, for messages."""
        return f"shard {self.info.shard_text} ({self.directory})" if self.info.shard else str(self.directory)


def read_parts(directories: Iterable[Path]) -> tuple[Part, ...]:
    """The parts in these directories, each once, oldest first.

    UsageError for a directory without a run, with one that is still going, or with a shard that does not say
    of which tests it is a part.
    """
    found = {directory.resolve(): directory for directory in reversed(tuple(directories))}
    parts = [read_part(directory) for directory in reversed(found.values())]
    return tuple(sorted(parts, key=lambda part: part.info.started_at))


def read_part(directory: Path) -> Part:
    """The part in one directory; UsageError as for ``read_parts``."""
    if not journal.begun(directory):
        raise UsageError(f"{directory} holds no run: {journal.NAME} is not there, or was not begun")
    with journal.idle(directory) as idle:
        if not idle:
            raise UsageError(f"{directory}: the run is still going; wait until it has ended")
        run = journal.read(directory)
    return part_of(directory, run)


def part_of(directory: Path, run: EarlierRun) -> Part:
    """The part that a journal describes.

    UsageError for a shard that does not say of which tests it is a part.
    """
    info = run.info
    if info.shard is not None and not info.selection:
        raise UsageError(
            f"{directory}: shard {info.shard_text} does not say of which tests: an older harness wrote it"
        )
    return Part(directory, run, info.shard[0] if info.shard else 1, info.selection or info.tests)
