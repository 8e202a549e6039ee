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
    color: str = "auto",
) -> Reporter:
    """The reporter that shows the run on ``stream``.

    ``live`` chooses the live picture (True) or plain lines (False). None chooses the live picture where the
    stream is a terminal that can move its cursor and ``CI`` is not set. ``color`` is "always", "never"
    or "auto" (see ``colored``). ``verbosity`` is -1 for ``-q`` and 1 for ``-v``. Where something else writes
    to the same terminal (``-s``, ``--pdb``), ``live`` has to be False.
    """
    wanted = can_draw(stream, environ) if live is None else live
    if wanted:
        from harness.report.live import LiveReporter

        return LiveReporter(
            stream, verbosity=verbosity, durations=durations, color=colored(stream, environ, color)
        )
    from harness.report.plain import PlainReporter

    return PlainReporter(
        stream, verbosity=verbosity, durations=durations, color=colored(stream, environ, color)
    )


def colored(stream: TextIO, environ: Mapping[str, str], choice: str = "auto") -> bool:
    """Whether lines have colours: by ``choice``, else ``NO_COLOR``, else ``FORCE_COLOR``, else on a terminal.

    The order of the two variables is Python's own (https://no-color.org, https://force-color.org).
    """
    if choice != "auto":
        return choice == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return environ.get("TERM", "") != "dumb" and not stream.closed and stream.isatty()


def can_draw(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether the stream is an open terminal that can move its cursor, outside of CI."""
    if environ.get("TERM", "") in ("dumb", "unknown") or environ.get("CI"):
        return False
    return not stream.closed and stream.isatty()
