"""Keeps the Python warnings that a test gives for its record; they are written to standard error as well.

A worker shows warnings as unittest does: all categories, each once a place, unless the interpreter was
started with ``-W`` or ``PYTHONWARNINGS``. In ranks the filters are Python's own.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TextIO

from harness.errors import CommunicationWarning, RankLeakWarning

# What a record keeps of a test's warnings: more of them, or longer ones, would not be read.
MOST = 20
LINE_MAX = 500
CUT = " ..."
# Of these the record of a test on ranks knows already.
TOLD = (CommunicationWarning, RankLeakWarning)


@contextlib.contextmanager
def collected(take: Callable[[str], None]) -> Iterator[None]:
    """The region of tests; ``take`` gets the line of each warning that is given in it."""
    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("default")
        take_shown(take)
        yield


def take_shown(take: Callable[[str], None]) -> None:
    """From now on ``take`` gets the line of each warning that is shown, until ``catch_warnings`` ends."""
    try:
        directory = os.getcwd()
    except FileNotFoundError:  # an earlier test has removed it
        directory = os.curdir
    show = warnings.showwarning

    def keep(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        show(message, category, filename, lineno, file, line)
        if not issubclass(category, TOLD):
            take(line_of(message, category, filename, lineno, directory))

    warnings.showwarning = keep


def line_of(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, directory: str
) -> str:
    """A warning in one line: ``tests/test_x.py:3: UserWarning: text``, files as seen from ``directory``."""
    inside = filename.startswith(directory + os.sep)
    place = filename[len(directory) + 1 :] if inside else filename
    text = next(iter(str(message).strip().splitlines()), "")
    line = f"{place}:{lineno}: {category.__name__}: {text}"
    return line if len(line) <= LINE_MAX else f"{line[: LINE_MAX - len(CUT)]}{CUT}"


def with_warning(known: tuple[str, ...], line: str) -> tuple[str, ...]:
    """The warnings of a test with another one: each line once, and at most ``MOST``."""
    return known if line in known or len(known) >= MOST else (*known, line)
