"""``HeldReport``: what unittest prints in a rank other than 0, kept until it is known whether anybody needs
it.

All processes come to the same verdicts, so rank 0 alone prints them. Another rank prints a line in the end,
and everything where rank 0 is gone, or where a test without ranks failed here, of which rank 0 knows nothing.
"""

from __future__ import annotations

import io
import unittest
from collections.abc import Collection
from typing import Any


class HeldReport(io.TextIOBase):
    """Takes the place of the stream that a unittest result writes to."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._held: list[str] = []

    def write(self, text: str) -> int:
        """Keeps the text."""
        self._held.append(text)
        return len(text)

    def show(self, text: str | None = None) -> None:
        """Writes a line in place of all that was kept, or all of it where there is none."""
        self._stream.write(f"{text}\n" if text is not None else "".join(self._held))
        self._stream.flush()
        self._held.clear()


def hold(result: unittest.TestResult | None) -> HeldReport | None:
    """Holds what this result, and the runner that shares its stream, print.

    None where there is no such stream.
    """
    around = getattr(result, "stream", None)
    if around is None or not hasattr(around, "stream") or isinstance(around.stream, HeldReport):
        return None
    around.stream = HeldReport(around.stream)
    held: HeldReport = around.stream
    return held


def settle(
    held: HeldReport,
    result: unittest.TestResult,
    rank: int,
    of_ranks: Collection[str],
    *,
    speaks: bool,
) -> None:
    """Shows what was held, or a line for it.

    ``of_ranks`` are the ids of the tests on ranks, about which rank 0 says the same. ``speaks`` returns
    whether this rank reports in rank 0's place.
    """
    bad = [test.id() for test, _ in (*result.failures, *result.errors)]
    own = [test for test in bad if not any(test == each or test.startswith(f"{each} ") for each in of_ranks)]
    if own or speaks:
        held.show()
        return
    ran = f"{result.testsRun} test{'s' * (result.testsRun != 1)}"
    held.show(f"harness: rank {rank}: ran {ran}, {len(bad)} bad; rank 0 reports them")
