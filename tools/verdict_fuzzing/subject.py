"""The test class of a case: a test that passes, the one that the fault strikes, and one that passes.

A module of such classes is one line, ``globals().update(classes([17, 18], __name__))``, so that ranks that
import it make the same classes from the same seeds.
"""

from __future__ import annotations

import atexit
import os
import time
import unittest
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from harness import MultiProcContinuousTest, MultiProcessTestCase, timeout
from harness.settings import EnvVar
from tools.verdict_fuzzing.case import NEVER_RUN, FuzzCase, draw
from tools.verdict_fuzzing.faults import strike
from tools.verdict_fuzzing.limits import limits_of

__unittest = True  # as in the harness, so that a traceback in a verdict shows no frame of this file

# The tests of a class, in the order in which they run.
BEFORE, STRUCK, AFTER = "test_1_before", "test_2_struck", "test_3_after"
# Set by who runs the cases: the factor for all limits, the words of ``--only``, and the process that runs the
# tests and is no rank.
PATIENCE, ONLY, RUNNER_PID = "FUZZ_PATIENCE", "FUZZ_ONLY", "FUZZ_RUNNER_PID"
# Seconds for which a peer sleeps that then passes.
NAP_S = 0.05


def patience() -> float:
    """The factor by which the limits of all cases are multiplied in this run."""
    return float(os.environ.get(PATIENCE, "1"))


def drawn(seed: int) -> FuzzCase:
    """The case of a seed under this run's ``--only``."""
    return draw(seed, [word for word in os.environ.get(ONLY, "").split(",") if word])


class Played(unittest.TestCase):
    """What the ranks of every mode do; mixed into a case of the harness, which has the ranks."""

    script: ClassVar[FuzzCase]
    rank: int
    world_size: int
    file_name: str
    _store: Any = None

    def setUp(self) -> None:
        limits = limits_of(self.script, patience())
        variables = {
            EnvVar.GRACE: f"{limits.grace_s:g}",
            EnvVar.SKIP_GRACE: f"{limits.skip_grace_s:g}",
            EnvVar.EXIT_GRACE: f"{limits.exit_grace_s:g}",
            EnvVar.STRICT: "1" if self.script.strict else "0",
        }
        for name, value in variables.items():
            self.addCleanup(_restore, name, os.environ.get(name))
            os.environ[name] = value
        super().setUp()

    def setUpRank(self) -> None:
        if self._testMethodName == STRUCK:
            self._strike_at("set-up")
            if self.script.peers in ("collective", "store") and self.script.mode != "kept":
                self._make_group()

    def tearDownRank(self) -> None:
        if self._testMethodName == STRUCK:
            self._strike_at("tear-down")

    def test_1_before(self) -> None:
        """Passes."""

    def test_3_after(self) -> None:
        """Passes, whatever became of the test before."""
        if self.script.mode == "kept":
            _all_reduce()

    def play(self) -> None:
        """The body of the test that is struck."""
        if not self._struck and self.script.peers == "skip":
            self.skipTest("a peer skips")
        if not self._struck and self.script.peers == "fail":
            self.fail("a peer fails")
        if self._struck and self.script.moment == "cleanup":
            self.addCleanup(strike, self.script.fault, self)
        if self._struck and self.script.moment == "exit":
            atexit.register(strike, self.script.fault, self)
        self._strike_at("body")
        if self.script.moment == "sub-test":
            with self.subTest(part="struck"):
                self._strike_at("sub-test")
        self._meet()
        self._strike_at("late")

    @property
    def _struck(self) -> bool:
        # On local tensors one process is all ranks, and all are struck.
        return not self.script.others or int(self.rank) in self.script.strikers

    def _strike_at(self, moment: str) -> None:
        if self.script.moment == moment and self._struck:
            strike(self.script.fault, self)

    def _make_group(self) -> None:
        import torch.distributed as dist

        self._store = dist.FileStore(self.file_name, self.world_size)
        if self.script.peers == "collective":
            dist.init_process_group("gloo", store=self._store, rank=self.rank, world_size=self.world_size)

    def _meet(self) -> None:
        """Lets the peers wait until every struck rank has come here, in the way that was drawn."""
        peers, here = self.script.peers, [f"{rank} is here" for rank in self.script.strikers]
        if peers == "collective":
            _all_reduce()
        elif peers == "store":
            self._store.set(f"{self.rank} is here", "") if self._struck else self._store.wait(here)
        elif peers == "busy":
            self._spin(here)
        elif peers == "sleep" and not self._struck:
            time.sleep(NAP_S)

    def _spin(self, here: Iterable[str]) -> None:
        if self._struck:
            with open(f"{self.file_name}.{self.rank} is here", "x"):
                return
        while not all(os.path.exists(f"{self.file_name}.{name}") for name in here):
            pass


def _all_reduce() -> None:
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(1))


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


class OnRanks(Played, MultiProcessTestCase):
    """A case whose test makes a process group of its own, in every mode but the next two."""


class OnKeptGroup(Played, MultiProcContinuousTest):
    """A case whose pooled ranks keep their process group."""

    @classmethod
    def backend_str(cls) -> str:
        """The name of gloo."""
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        """The type of the CPU."""
        return "cpu"


def _local_base() -> type:
    """The case on local tensors, which imports torch: it is made where it is needed."""
    from harness import DTensorTestBase

    return type("OnLocalTensors", (Played, DTensorTestBase), {"__module__": __name__})


def strike_on_import(seed: int) -> None:
    """Strikes in a process that imports a module of cases and is not the one that runs the tests."""
    case = drawn(seed)
    if case.moment == "import" and os.environ.get(RUNNER_PID) != str(os.getpid()):
        strike(case.fault, None)


def classes(seeds: Iterable[int], module: str) -> dict[str, type]:
    """The test classes of those seeds by name, for the module that is to have them."""
    return {name_of(seed): _class_of(drawn(seed), module) for seed in seeds}


def name_of(seed: int) -> str:
    """The name of the test class of a seed."""
    return f"Seed{seed}"


def _class_of(case: FuzzCase, module: str) -> type:
    base = {"kept": OnKeptGroup}.get(case.mode, OnRanks) if case.mode != "local" else _local_base()
    mode = {"kept": "pooled", "external": "fresh"}.get(case.mode, case.mode)
    limits = limits_of(case, patience())
    struck = timeout(limits.deadline_s)(_method(case))
    members = {
        "__module__": module,
        "script": case,
        "world_size": case.world_size,
        "rank_modes": (mode, "fresh") if case.retries else (mode,),
        STRUCK: unittest.expectedFailure(struck) if case.expected_failure else struck,
    }
    return type(name_of(case.seed), (base,), members)


def _method(case: FuzzCase) -> Callable[[Any], Any]:
    """The test method on whose ranks the fault strikes."""
    if case.fault not in NEVER_RUN:
        return _plain
    return _coroutine if case.fault == "async_method" else _generator


def _plain(self: Played) -> None:
    self.play()


async def _coroutine(self: Played) -> None:
    self.fail("this method ran")


def _generator(self: Played) -> Any:
    yield
    self.fail("this method ran")
