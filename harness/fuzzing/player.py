"""Plays programs of fuzzers on ranks: how each fails, if it does, and the smallest one that fails so."""

from __future__ import annotations

import contextlib
import os
import time
import unittest
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

from harness.fuzzing.hunted import Hunted, Rejected
from harness.fuzzing.signature import Failure, of_outcome
from harness.fuzzing.subject import subject_of
from harness.fuzzing.waiting import Waiting
from harness.outcomes import Status
from harness.settings import EnvVar

# Seconds and tries that shrinking one program may take. Seconds in which a rank had no processor do not
# count, since what a busy machine leaves half shrunk is not known again.
SHRINKING_S = 120.0
TRIES = 60
# Seconds that the ranks of a failed program have to report.
GRACE_S = 2.0
# Variables that this process may have inherited and that must not decide a program.
_OWN = "HARNESS_"


@contextlib.contextmanager
def quiet_environment() -> Iterator[None]:
    """Sets the variables under which programs are played, for this process and its ranks."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    own = {EnvVar.GRACE: f"{GRACE_S:g}", EnvVar.LAUNCHER: "forkserver", "OMP_NUM_THREADS": "1"}
    with mock.patch.dict(os.environ, {**inherited, **own}, clear=True):
        yield


def played(
    fuzzer: Hunted[Any], program: Any, patience: float = 1.0, chaos: int | None = None
) -> Failure | None:
    """Runs a program on its ranks and says how it failed; None where it passed. Raises Rejected.

    ``chaos`` is the seed by which the ranks are delayed, None for no delays.
    """
    test, result = subject_of(fuzzer, program), unittest.TestResult()
    own = {
        EnvVar.TIMEOUT: f"{fuzzer.timeout_s * patience:g}",
        EnvVar.CHAOS: "" if chaos is None else str(chaos),
    }
    with mock.patch.dict(os.environ, own), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        test.run(result)
    outcome = test._harness_outcome
    if outcome is None:
        raise RuntimeError("\n".join(text for _, text in (*result.errors, *result.failures)))
    if outcome.status is Status.SKIPPED:
        raise Rejected(outcome.reason)
    return of_outcome(outcome)


def smallest(fuzzer: Hunted[Any], program: Any, failure: Failure, chaos: int | None = None) -> Any:
    """The smallest program found that fails in the same way, with the same delays. None is tried twice."""
    until_s, tried = time.monotonic() + SHRINKING_S, {program}
    candidates = list(fuzzer.simpler(program))
    while candidates and time.monotonic() < until_s and len(tried) <= TRIES:
        candidate = candidates.pop(0)
        if candidate in tried:
            continue
        tried.add(candidate)
        came: Failure | None = None
        with Waiting() as waiting, contextlib.suppress(Rejected):
            came = played(fuzzer, candidate, chaos=chaos)
        until_s += waiting.seconds
        if came == failure:
            program, candidates = candidate, list(fuzzer.simpler(candidate))
    return program
