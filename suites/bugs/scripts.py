"""Runs the script of an entry in a process that is new, but for the modules that it has imported."""

from __future__ import annotations

import os
import re
import runpy
import unittest
import warnings
from typing import Any
from unittest import mock

from harness import MultiProcessTestCase
from harness.fuzzing.fresh_process import START_S, run_file
from harness.fuzzing.signature import Failure, of_outcome, of_script
from harness.settings import EnvVar, Settings
from suites.bugs.book import Entry, entries

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# What many scripts import, and what takes longest.
IMPORTED = ("torch.distributed", "torch._dynamo", "torch._inductor.compile_fx", "functorch.compile")


# How a process of a script ends whose peer has failed and is gone. That of the two which ends first is shown.
_PEER_IS_GONE = re.compile(r"SIGABRT|closed by peer|reset by peer|Broken pipe|Ran out of input")
# A script that shows that in place of its own failure is run so often, the last time in a new interpreter.
TRIES = 3


class ScriptOfEntry(MultiProcessTestCase):
    """A test for each entry, which executes its script as ``__main__`` in a fresh rank."""

    rank_modes = ("fresh",)

    @property
    def world_size(self) -> int:
        """One: a script starts its own ranks."""
        return 1

    #: Seconds for the script, which do not count until its process has begun.
    limit_s = 120.0

    def _timeout_s(self, settings: Settings) -> float:
        return settings.deadline_s(self.limit_s)

    def _imports_of_ranks(self) -> list[str]:
        return [*super()._imports_of_ranks(), *IMPORTED]


def _test_of(entry: Entry) -> Any:
    def test(self: ScriptOfEntry) -> None:
        runpy.run_path(str(entry.path), run_name="__main__")

    return test


for _entry in entries():
    setattr(ScriptOfEntry, f"test_{_entry.name}", _test_of(_entry))


def failure_of(entry: Entry, limit_s: float) -> tuple[Failure | None, str]:
    """How the script fails, if it does, and what was said; it hangs if it takes more than ``limit_s``.

    Where one process has failed as the entry says and another, which it leaves alone, ends first, the script
    is run again. At last it runs in a new interpreter: its own processes are forked from one that was forked
    itself otherwise, in which threads of a backward may find no pool ("Invalid thread pool!"; CUDA builds of
    2.11 and 2.12).
    """
    for left in reversed(range(TRIES)):
        failure, said = _run(entry, limit_s) if left else run_file(entry.path, limit_s + START_S)
        if failure is None or not only_of_a_peer(entry, str(failure)):
            break
    return failure, said


def only_of_a_peer(entry: Entry, failure: str) -> bool:
    """Whether a failure is not the entry's, and may be what becomes of a process whose peer has failed."""
    return not re.search(entry.fails, failure) and _PEER_IS_GONE.search(failure) is not None


def _run(entry: Entry, limit_s: float) -> tuple[Failure | None, str]:
    test, result = ScriptOfEntry(f"test_{entry.name}"), unittest.TestResult()
    test.limit_s = limit_s
    # The script's ranks are no ranks of the harness, which would wait for their calls.
    with mock.patch.dict(os.environ, {EnvVar.COMM_CHECK: "off"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        test.run(result)
    said = "\n".join(text for _, text in (*result.errors, *result.failures))
    outcome = test._harness_outcome
    if outcome is None:
        raise RuntimeError(f"the script did not begin:\n{said}")
    (rank,) = outcome.ranks
    if rank.error is None:
        return of_outcome(outcome), said
    return of_script(1, rank.error.traceback), said
