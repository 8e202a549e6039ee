"""``Forks``: runs tests under mutants in forks of one process, those that pass there without one."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

from harness.errors import HarnessError
from harness.settings import EnvVar
from tools.mutation import modules
from tools.mutation.attempts import Attempt, Mutant, Outcome
from tools.planted_run import ROOT

# What came of tests in forks without a mutant: the seconds of those that passed, how often others failed.
NAME = "tried.json"
# So often a test is tried without a mutant, each time when it is wanted again: one that fails on a machine
# under load is not one that fails in every fork, and left out it would let all later mutants survive it.
TRIES = 3
# Variables of a process whose libraries have no threads, so that it can fork.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# Seconds that the process gets to end its forks.
ENDING_S = 10.0


class WarmProcessEnded(HarnessError):
    """The warm process ended by itself; the message has its last words."""


class Forks:
    """Owns the warm process, which starts with the first attempt, and the tests' seconds in it."""

    def __init__(self, directory: Path, environ: Mapping[str, str]) -> None:
        """``directory`` keeps the tests' seconds from run to run; the process gets ``environ``, too."""
        self._path = directory / NAME
        self._log = directory / "warm.log"
        self._environ = environ
        self._stack = contextlib.ExitStack()
        self._control: Connection | None = None
        self._seconds: dict[str, float] = {}
        self._failures: Counter[str] = Counter()
        if self._path.exists():
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            self._seconds, self._failures = kept["passed"], Counter(kept["failed"])

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def passing(self, tests: Sequence[str], timeout_s: float) -> dict[str, float]:
        """The tests that pass in a fork without a mutant, with their seconds.

        One that has passed is not tried again; one that has failed is, once a call, ``TRIES`` times in all.
        """
        new = [test for test in tests if test not in self._seconds and not self.given_up(test)]
        while new:
            ran = {r.test: r for r in self._attempt(Attempt(None, tuple(new), timeout_s, True)).ran}
            tried = [test for test in new if test in ran] or [new[0]]
            for test in tried:
                if test in ran and not ran[test].words:
                    self._seconds[test] = round(ran[test].seconds, 3)
                else:
                    self._failures[test] += 1
            new = [test for test in new if test not in tried]
            kept = {"passed": self._seconds, "failed": self._failures}
            self._path.write_text(json.dumps(kept), encoding="utf-8")
        return {test: self._seconds[test] for test in tests if test in self._seconds}

    def given_up(self, test: str) -> bool:
        """Whether a test has failed so often without a mutant that it is not tried again."""
        return self._failures[test] >= TRIES

    def attempt(self, mutant: Mutant, tests: Sequence[str], timeout_s: float) -> Outcome:
        """Runs the tests under a mutant up to the first that fails."""
        return self._attempt(Attempt(mutant, tuple(tests), timeout_s, False))

    def _attempt(self, attempt: Attempt) -> Outcome:
        if self._control is None:
            self._control = self._stack.enter_context(self._started())
        try:
            self._control.send(attempt)
            outcome = self._control.recv()
        except (EOFError, OSError):
            self._control = None
            self._stack.close()
            last = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise WarmProcessEnded(f"the warm process ended: {' '.join(last) or 'no words'}") from None
        assert isinstance(outcome, Outcome)
        return outcome

    @contextlib.contextmanager
    def _started(self) -> Iterator[Connection]:
        ours, its = Pipe()
        arguments = [str(its.fileno()), str(modules.root()), *modules.files()]
        command = [sys.executable, "-m", "tools.mutation.warm_process", *arguments]
        with (
            open(self._log, "w", encoding="utf-8") as log,
            subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **_ONE_THREAD, EnvVar.STATE_DIR: str(self._log.parent), **self._environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[its.fileno()],
                start_new_session=True,
            ) as process,
        ):
            its.close()
            try:
                with ours:
                    yield ours
            finally:  # closing the connection has it end
                try:
                    process.wait(ENDING_S)
                except subprocess.TimeoutExpired:
                    process.kill()
