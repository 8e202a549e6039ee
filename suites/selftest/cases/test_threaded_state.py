"""Tests that each rank on a thread has a state of its own, and that the parent keeps its."""

from __future__ import annotations

import gc
import os
import threading
import unittest
import warnings
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

from suites.selftest.faults import threaded, threaded_state
from suites.selftest.faults.rows import FaultRows

MANY = 200


def setUpModule() -> None:
    """Lets torch import what this call needs, because that leaves a directory."""
    torch.use_deterministic_algorithms(False)


class StateTest(FaultRows):
    """State that belongs to the process."""

    def test_generators(self) -> None:
        """Each rank draws the random numbers that it would draw alone."""
        self.passes(threaded_state.State, "test_generators")

    def test_settings(self) -> None:
        """Each rank has settings of its own, and the parent has its own again afterwards."""
        for method, verdict in (("test_settings", "pass"), ("test_settings_and_fail", "FAIL")):
            with self.subTest(method=method), warnings.catch_warnings():
                before = _settings()
                played = self.play(threaded_state.State, method)
                self.assertEqual(played.verdict, verdict, played.text)
                self.assertEqual(_settings(), before)

    def test_tolerances_by_thread(self) -> None:
        """Tolerances that torch keeps by thread hold in the rank threads."""
        for name in ("TolerantCPU", "TolerantDecoratedCPU"):
            with self.subTest(name):
                self.passes(getattr(threaded_state, name), "test_tolerance_cpu_float32")

    def test_parents_generators(self) -> None:
        """A threaded test draws no random number of the parent's."""
        torch.manual_seed(5)
        first = torch.rand(3)
        torch.manual_seed(5)
        case = threaded_state.State("test_generators")
        with mock.patch.object(type(case), "run", unittest.TestCase.run):  # without seeding the parent
            result = unittest.TestResult()
            case.run(result)
        self.assertTrue(result.wasSuccessful(), result.failures)
        self.assertTrue(torch.equal(torch.rand(3), first))

    def test_state_after_a_sleep(self) -> None:
        """A rank that sleeps or waits for a child lets the others run, and finds its own state afterwards."""
        for method in ("test_sleeps", "test_waits_for_child", "test_listens_to_child"):
            with self.subTest(method):
                self.passes(threaded_state.Sleeping, method)

    def test_asleep_elsewhere(self) -> None:
        """A rank that waits without giving the run token away loses it, so that the others can run."""
        self.passes(threaded_state.Asleep, "test_meet_elsewhere")
        self.passes(threaded_state.FreeAsleep, "test_meet_elsewhere")

    def test_many(self) -> None:
        """Hundreds of tests leave no thread and no descriptor."""
        self.play(threaded.Late, "test_runs")
        gc.collect()  # of tests before this one
        threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
        for _ in range(MANY):
            self.passes(threaded.Late, "test_runs")
        gc.collect()
        self.assertEqual(threading.active_count(), threads)
        self.assertEqual(len(os.listdir("/proc/self/fd")), descriptors)


def _settings() -> tuple[Any, ...]:
    return (
        dict(os.environ),
        os.getcwd(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_grad_enabled(),
        list(warnings.filters),
        dist.distributed_c10d._world,
    )


if __name__ == "__main__":
    unittest.main()
