"""``Reporter``, the interface of all reporters; ``RunInfo``, what is known of a run; ``TestStarted``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from harness.bazel_command import is_bazel

if TYPE_CHECKING:
    from harness.record import TestRecord
    from harness.report.summary import Summary


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What is known of a run before its first test. The journal keeps a part of it for the runs that follow.

    * ``directory`` holds the run's reports; None where no reports are written.
    * ``command`` is what a user types to run some of the tests again (``python run_tests.py --seed 7``, or
      Bazel's).
      ``names`` maps the id of a test that the command does not find by its id to the name that it does find.
    * ``argv`` is the arguments that this run was started with, ``cwd`` the directory that it was started in.
    * ``options`` are those that are not at their defaults and ``environ`` the variables that decide verdicts,
      both with what the run took over from one before it.
    * ``shard`` is (1-based index, number of shards).
    * ``tests`` are the ids of all tests that the run has to run. Where it is a shard, or runs again what
      failed in an earlier run, ``selection`` are the ids of the tests of which these are a part; else it is
      empty.
    * ``sources`` maps the test modules and ``harness`` to digests of their source
      (``harness.source_digests``).
    * ``total`` is the number of attempts that are due in this run, without reruns.
    * ``repeats`` is how often each test is run, 0 for without end; ``reruns`` is the number of further
      attempts at a test that failed.
    * ``resumed`` is the number of results that were taken over from an earlier, interrupted run.
    * ``expected_s`` maps test ids to the seconds that one repeat should take; unknown tests are missing.
    * ``started_at`` is in seconds since the epoch, ``started_s`` is on the monotonic clock.
    * ``shuffle`` is the seed of a random order of the tests; None where the order is not random.
    """

    directory: Path | None = None
    command: str = "python run_tests.py"
    names: Mapping[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    seed: int | None = None
    shard: tuple[int, int] | None = None
    jobs: int = 1
    total: int = 0
    started_at: float = 0.0
    started_s: float = 0.0
    hostname: str = ""
    python: str = ""
    torch: str | None = None
    platform: str = ""
    expected_s: Mapping[str, float] = field(default_factory=dict)
    resumed: int = 0
    repeats: int = 1
    reruns: int = 0
    shuffle: int | None = None
    cwd: str = ""
    tests: tuple[str, ...] = ()
    selection: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def shard_text(self) -> str:
        """The shard as ``I/N``, empty where the run is not split."""
        return f"{self.shard[0]}/{self.shard[1]}" if self.shard else ""

    @property
    def started_as(self) -> str:
        """The command line of this run."""
        if is_bazel(self.command):  # whose target has the arguments
            return self.command
        program, _, _ = self.command.partition(" --")
        return shlex.join([*shlex.split(program), *self.argv])

    @property
    def same_order(self) -> str | None:
        """The command line that runs the tests of this run again in the same random order.

        None where the order is not random, or where this run resumed another and so ran only a part of it.
        """
        if self.shuffle is None or self.resumed:
            return None
        return f"{self.started_as} --shuffle={self.shuffle}"


@dataclass(frozen=True, slots=True)
class TestStarted:
    """The event that an attempt at a test has begun in a worker; ``started_s`` is on the monotonic clock.

    ``world_size`` is None for a test without ranks.
    """

    __test__ = False  # not a test class, whatever pytest thinks of the name

    id: str
    worker: str
    started_s: float
    world_size: int | None = None
    attempt: int = 1
    repeat: int = 1


class Reporter(Protocol):
    """Shows a run, or writes a file about it. The session calls every method from one thread, in this order.

    ``start`` once; then ``test_started``, ``test_finished``, ``message`` and ``tick`` as things happen;
    ``finish`` once, also after an interrupt or an error of the harness. Only ``start`` and ``finish`` may
    raise ``OSError``.
    """

    def start(self, info: RunInfo) -> None:
        """The run begins."""

    def test_started(self, event: TestStarted) -> None:
        """An attempt begins."""

    def test_finished(self, record: TestRecord) -> None:
        """An attempt is over; also called, without ``test_started``, for one that failed before it began."""

    def message(self, text: str) -> None:
        """A notice or warning of the harness itself, one line."""

    def show(self, lines: Sequence[str]) -> None:
        """What a person has asked for while the run goes, as lines; it is no part of the run's reports."""

    def tick(self, now_s: float) -> None:
        """Called about once a second with the monotonic time."""

    def finish(self, summary: Summary) -> None:
        """The run is over; ``summary`` holds every record, of a resumed run also the earlier ones."""


class QuietReporter:
    """Base class of the reporters that write only at the end of the run; ``info`` is what ``start`` got."""

    def __init__(self) -> None:
        self.info = RunInfo()

    def start(self, info: RunInfo) -> None:
        """Keeps ``info`` for ``finish``."""
        self.info = info

    def test_started(self, event: TestStarted) -> None:
        """Nothing is shown."""

    def test_finished(self, record: TestRecord) -> None:
        """Nothing is shown."""

    def message(self, text: str) -> None:
        """Nothing is shown."""

    def show(self, lines: Sequence[str]) -> None:
        """Nothing is shown."""

    def tick(self, now_s: float) -> None:
        """Nothing is shown."""

    def finish(self, summary: Summary) -> None:
        """Nothing is written."""
