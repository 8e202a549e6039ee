"""Made-up machines for the self-tests of requirements, and tests that run as if on one of them."""

from __future__ import annotations

import os
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from harness import requirements as r
from harness.requirements import probes
from harness.requirements.machine import wishes_from

CPU = r.MachineFacts()
BARE = r.MachineFacts(backends=frozenset())
CUDA_1 = r.MachineFacts(
    accelerators=(("cuda", 1),), backends=frozenset({"gloo", "nccl"}), nccl_version=(2, 21, 5)
)
CUDA_4 = r.MachineFacts(
    accelerators=(("cuda", 4),), backends=frozenset({"gloo", "nccl"}), nccl_version=(2, 27, 3), multicast=True
)
ROCM = r.MachineFacts(
    accelerators=(("cuda", 8),),
    backends=frozenset({"gloo", "nccl"}),
    rocm=True,
    rocm_version=(6, 2),
    rocm_arch="gfx942",
)
CUDA_2 = r.MachineFacts(accelerators=(("cuda", 2),), backends=frozenset({"gloo", "nccl"}))
XPU_2 = r.MachineFacts(accelerators=(("xpu", 2),), backends=frozenset({"gloo", "xccl"}))
HPU_8 = r.MachineFacts(accelerators=(("hpu", 8),), backends=frozenset({"gloo", "hccl"}))
MAC = r.MachineFacts(accelerators=(("mps", 1),), platform="darwin")
OWN_2 = r.MachineFacts(accelerators=(("npu", 2),))
WINDOWS = r.MachineFacts(platform="win32", memory_mb=8000)

Decorator = Callable[[Any], Any]


@dataclass
class Row:
    """One test on one machine, and what it must say: part of the reason for a skip, or None."""

    decorator: Decorator
    facts: r.MachineFacts
    expected: str | None
    world_size: int | None = None
    environ: dict[str, str] = field(default_factory=dict)


@contextmanager
def probed(facts: r.MachineFacts) -> Iterator[None]:
    """A machine with these facts, whether torch is asked for them or not."""
    with (
        mock.patch.object(probes, "probe", return_value=facts),
        mock.patch.object(probes, "probe_system", return_value=facts),
    ):
        yield


@contextmanager
def machine(facts: r.MachineFacts, environ: dict[str, str] | None = None) -> Iterator[None]:
    """A machine with these facts and nothing but this environment."""
    with probed(facts), mock.patch.dict(os.environ, environ or {}, clear=True):
        yield


def case_of(row: Row) -> unittest.TestCase:
    """A plain unittest test with that decorator, which remembers in `ran` whether its body ran."""

    class Plain(unittest.TestCase):
        ran = False

        @row.decorator
        def test_it(self) -> None:
            self.ran = True

    test = Plain("test_it")
    if row.world_size is not None:
        test.world_size = row.world_size  # type: ignore[attr-defined]  # as the multi-process cases have it
    return test


def outcome(test: unittest.TestCase) -> str | None:
    """The skip reason of a run through unittest, None for a pass; AssertionError for anything else."""
    result = unittest.TestResult()
    test.run(result)
    if result.errors or result.failures:
        raise AssertionError((result.errors + result.failures)[0][1])
    return result.skipped[0][1] if result.skipped else None


def run(cls: type[unittest.TestCase], facts: r.MachineFacts = CPU) -> unittest.TestResult:
    """All tests of the class through unittest, on a machine with these facts."""
    result = unittest.TestResult()
    with probed(facts):
        unittest.defaultTestLoader.loadTestsFromTestCase(cls).run(result)
    return result


def skips(result: unittest.TestResult) -> dict[str, str]:
    """{method name: reason} of the tests that skipped."""
    return {test.id().rpartition(".")[2]: reason for test, reason in result.skipped}


class VerdictTestCase(unittest.TestCase):
    """Base of the tests that check rows. Has no tests of its own."""

    def check(self, rows: list[Row]) -> None:
        """Judges each row in three ways, which must agree: a call of the test, `skip_reason`, `unmet`."""
        for row in rows:
            with self.subTest(row=row), machine(row.facts, row.environ), mock.patch("sys.stderr"):
                self._check_row(row)

    def _check_row(self, row: Row) -> None:
        test = case_of(row)
        requirements = r.requirements_of(type(test), "test_it")
        run_facts = r.run_facts_from(row.environ, world_size=row.world_size)
        verdicts = [outcome(test), r.skip_reason(test), r.unmet(requirements, row.facts, run_facts)]
        if row.expected is None:
            self.assertEqual(verdicts, [None] * 3)
            sandcastle = wishes_from(row.environ).sandcastle
            self.assertNotEqual(test.ran, sandcastle)  # type: ignore[attr-defined]
        else:
            self.assertIn(row.expected, str(verdicts[0]))
            self.assertEqual(verdicts, [verdicts[0]] * 3)
            self.assertFalse(test.ran)  # type: ignore[attr-defined]
