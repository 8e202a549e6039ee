"""Which console a run gets: live on a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from harness.report.base import Reporter

# Slowest tests listed unless --durations says otherwise: they fit below any summary.
DEFAULT_DURATIONS = 5


def console_reporter(
    stream: TextIO,
    environ: Mapping[str, str],
    *,
    verbosity: int = 0,
    durations: int = DEFAULT_DURATIONS,
    live: bool | None = None,
) -> Reporter:
    """The console for ``stream``.

    ``live`` True or False decides; None means live where the stream is a terminal that can move its cursor
    and nobody reads it as a log (``CI``). ``NO_COLOR`` (https://no-color.org) takes the colours away.
    ``verbosity`` is -1 for ``-q``, 1 for ``-v``. Something else that writes to the same terminal (``-s``,
    ``--pdb``) needs ``live=False``.
    """
    wanted = can_draw(stream, environ) if live is None else live
    if wanted:
        from harness.report.live import LiveReporter

        color = not environ.get("NO_COLOR")
        return LiveReporter(stream, verbosity=verbosity, durations=durations, color=color)
    from harness.report.plain import PlainReporter

    return PlainReporter(stream, verbosity=verbosity, durations=durations)


def can_draw(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """True where a live picture can be shown."""
    if environ.get("TERM", "") in ("dumb", "unknown") or environ.get("CI"):
        return False
    return not stream.closed and stream.isatty()
