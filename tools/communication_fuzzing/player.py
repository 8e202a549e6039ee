"""Runs cases in this process, and says what came of each."""

from __future__ import annotations

import os
import time
import unittest
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unittest import mock

from harness.outcomes import RankOutcome
from harness.settings import EnvVar
from tools.communication_fuzzing.case import FuzzCase
from tools.communication_fuzzing.subject import subject_of

# Seconds. A proof comes after one; what comes to the deadline is none.
DEADLINE_S = 20.0
# Variables that this process may have inherited and that must not decide a case.
_OWN = "HARNESS_"


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of a case: the verdict's status and cause, what was told beside it, and its whole text.

    ``ranks`` are the status of each rank. ``seconds`` is how long the test took.
    """

    status: str
    cause: str = ""
    told: tuple[str, ...] = ()
    text: str = ""
    ranks: tuple[str, ...] = ()
    seconds: float = 0.0


def play(cases: Sequence[FuzzCase], patience: float = 1.0) -> Iterator[tuple[FuzzCase, Observation]]:
    """Runs cases one after another; ``patience`` multiplies the deadline."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    own = {
        EnvVar.TIMEOUT: f"{DEADLINE_S * patience:g}",
        EnvVar.GRACE: f"{2 * patience:g}",
        EnvVar.LAUNCHER: "forkserver",
        "OMP_NUM_THREADS": "1",
    }
    with mock.patch.dict(os.environ, {**inherited, **own}, clear=True):
        for case in cases:
            yield case, played(case)


def played(case: FuzzCase) -> Observation:
    """Runs one case."""
    test, result = subject_of(case), unittest.TestResult()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        started = time.monotonic()
        test.run(result)
        seconds = time.monotonic() - started
    text = "\n".join(text for _, text in (*result.errors, *result.failures))
    outcome = test._harness_outcome
    if outcome is None:
        return Observation("no outcome", text=text, seconds=seconds)
    told = tuple(
        dict.fromkeys((*outcome.communication, *outcome.warnings, *(str(w.message) for w in caught)))
    )
    return Observation(
        outcome.status.value, outcome.reason, told, text, tuple(map(_rank_text, outcome.ranks)), seconds
    )


def _rank_text(outcome: RankOutcome) -> str:
    return f"rank {outcome.rank}: {outcome.status.value}"
