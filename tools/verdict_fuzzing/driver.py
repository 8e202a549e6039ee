"""The process that runs a batch of cases by unittest: ``driver MODULE OUT SEED ...``.

It imports the module of the cases, runs each case's tests one after another, and appends a line to the file
OUT when it begins a case and one with what came of it. The tool reads the lines, and ends this process where
a case hangs it.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
import unittest
import warnings
from collections.abc import Sequence

from tools.verdict_fuzzing import external_driver, telling
from tools.verdict_fuzzing.case import HANGING, FuzzCase
from tools.verdict_fuzzing.leftovers import MARK, Held, more_than
from tools.verdict_fuzzing.model import stuck
from tools.verdict_fuzzing.observation import NO_VERDICT, Observation, verdict_of
from tools.verdict_fuzzing.subject import (
    AFTER,
    BEFORE,
    RUNNER_PID,
    STRUCK,
    drawn,
    name_of,
    patience,
)

# Processes that may live on after a test: the server, and pooled ranks.
SERVERS = 1


def main(module: str, out: str, *seeds: str) -> None:
    """Runs the cases of those seeds and writes what came of them."""
    os.environ[RUNNER_PID] = str(os.getpid())
    cases = [drawn(int(seed)) for seed in seeds]
    if any(case.mode == "external" for case in cases):
        external_driver.run(module, out, cases)
        return
    if cases[0].moment == "import":
        # A process with a second thread is not forked: a new server imports the module.
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    found = importlib.import_module(module)
    if cases[0].moment != "import":
        # Starts the server, which takes seconds and is no part of any case.
        verdict_of(getattr(found, name_of(cases[0].seed))(AFTER))
    for case in cases:
        telling.begin(out, case.seed)
        telling.end(out, case.seed, observed(case, getattr(found, name_of(case.seed))))


def observed(case: FuzzCase, subject: type[unittest.TestCase]) -> Observation:
    """Runs the tests of a case in this process and returns what came of them."""
    before = verdict_of(subject(BEFORE))[0] if case.prelude else NO_VERDICT
    held = Held.now()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        started = time.monotonic()
        verdict, text = verdict_of(subject(STRUCK))
        seconds = time.monotonic() - started
    after, why = verdict_of(subject(AFTER))
    left = _left(case, held)
    return Observation(
        verdict,
        text if after == "pass" else f"{text}\nthe test after it: {why}",
        before,
        after,
        tuple(str(w.message) for w in caught if w.category.__name__ == "RankLeakWarning"),
        tuple(left),
        seconds,
    )


def _left(case: FuzzCase, held: Held) -> list[str]:
    """Lines about what the case left in this process, and processes that it left beside it."""
    kept = {"pooled": case.world_size, "kept": case.world_size, "local": 1}.get(case.mode, 0)
    most = 0 if case.mode == "threads" else SERVERS + kept
    processes = more_than(os.environ[MARK], most, patience())
    lines = [f"processes left: {processes}"] if processes else []
    return lines + (held.grown(_threads_allowed(case)) if case.prelude else [])


def _threads_allowed(case: FuzzCase) -> int:
    """How many threads a test on threads may leave: those that it starts, and those that nobody can end."""
    if case.mode != "threads":
        return 0
    stays = (*HANGING, "daemon_thread_left")
    return case.world_size if case.fault in stays or stuck(case) else 0


if __name__ == "__main__":
    arguments: Sequence[str] = sys.argv[1:]
    main(*arguments)
