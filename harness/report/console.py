"""Chooses the console of a run: a live picture on a terminal, plain lines everywhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from harness.report.base import Reporter

# Number of slowest tests that are listed without --durations: a few lines below the summary.
DEFAULT_DURATIONS = 5


def console_reporter(
    stream: TextIO,
    environ: Mapping[str, str],
    *,
    verbosity: int = 0,
    durations: int = DEFAULT_DURATIONS,
    live: bool | None = None,
) -> Reporter:
    """The reporter that shows the run on ``stream``.

    ``live`` chooses the live picture (True) or plain lines (False). None chooses the live picture where the
    stream is a terminal that can move its cursor and ``CI`` is not set. ``NO_COLOR`` (https://no-color.org)
    takes the colours away. ``verbosity`` is -1 for ``-q`` and 1 for ``-v``. Where something else writes to
    the same terminal (``-s``, ``--pdb``), ``live`` has to be False.
    """
    wanted = can_draw(stream, environ) if live is None else live
    if wanted:
        from harness.report.live import LiveReporter

        color = not environ.get("NO_COLOR")
        return LiveReporter(stream, verbosity=verbosity, durations=durations, color=color)
    from harness.report.plain import PlainReporter

    return PlainReporter(stream, verbosity=verbosity, durations=durations)


def can_draw(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether the stream is an open terminal that can move its cursor, outside of CI."""
    if environ.get("TERM", "") in ("dumb", "unknown") or environ.get("CI"):
        return False
    return not stream.closed and stream.isatty()
