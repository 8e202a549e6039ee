"""Tests the verdict of each test in files of upstream's style that run on the harness's ranks."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import ClassVar

from harness.releases import torch_at_least
from suites.selftest import warm_python
from tools.bench.dropin import kept, load, sample
from tools.bench.upstream_file import NOT_PASSED, PASSED, SKIPPED, read

ROOT = Path(__file__).resolve().parents[3]
FILES = ROOT / "suites" / "selftest" / "upstream"
# One in so many of the wheel's tests that skip is run here; most of them skip without ranks.
SKIPPED_STEP = 20
# Seconds for a whole file on a machine that is busy with other things.
TIMEOUT_S = 300


class Played(unittest.TestCase):
    """Base of classes that run a test file once, in its own process, and check the verdicts of its tests.

    ``tests`` are the ids to run, all of the file's if empty; ``expected`` is the verdict by test id.
    """

    file: ClassVar[str] = ""
    tests: ClassVar[list[str]] = []
    expected: ClassVar[dict[str, str]] = {}
    verdicts: ClassVar[dict[str, str]]
    output: ClassVar[str]
    code: ClassVar[int]

    @classmethod
    def setUpClass(cls) -> None:
        if not cls.file:
            raise unittest.SkipTest("this class is only a base")
        with tempfile.TemporaryDirectory() as directory:
            results = Path(directory, "results")
            command = ("-m", "tools.bench.upstream_file", "drop-in", str(results))
            # On a CI system upstream's own run_tests wants a library for XML reports.
            environ = {k: v for k, v in os.environ.items() if not k.startswith("HARNESS_") and k != "CI"}
            done = warm_python.run(
                (*command, str(FILES / cls.file), "-v", *cls.tests),
                cwd=ROOT,
                env=environ,
                timeout=TIMEOUT_S,
            )
            cls.code, cls.output = done.returncode, done.stdout
            lines = results.read_text().splitlines() if results.exists() else []
        cls.verdicts = {verdict.test: verdict.verdict for verdict in read(lines)}

    def test_verdicts(self) -> None:
        """Every test that was run has the expected verdict, and no other test was run."""
        self.maxDiff = None
        self.assertEqual(self.verdicts, self.expected, self.output[-8000:])

    def test_exit_code(self) -> None:
        """The exit code is 1 if any test did not pass, and 0 otherwise."""
        self.assertEqual(self.code, int(NOT_PASSED in self.expected.values()))


class Ends(Played):
    """Tests on fresh ranks, whose processes end in every way that there is."""

    file = "verdicts.py"
    expected: ClassVar[dict[str, str]] = {
        "DeviceTestCPU.test_group_cpu": PASSED,
        "EndsTest.test_coroutine": NOT_PASSED,  # upstream: passed, because nothing was run
        "EndsTest.test_crashes": NOT_PASSED,
        "EndsTest.test_expected_failure": PASSED,
        "EndsTest.test_fails_on_rank_1": NOT_PASSED,
        "EndsTest.test_parents_invariants_stay_there": PASSED,
        "EndsTest.test_leaves_content": PASSED,
        "EndsTest.test_leaves_content_and_fails_in_a_cleanup": NOT_PASSED,  # upstream: passed
        "EndsTest.test_passes": PASSED,
        "EndsTest.test_rank_1_vanishes": NOT_PASSED,  # upstream: passed
        "EndsTest.test_raises": NOT_PASSED,
        "EndsTest.test_raises_on_rank_0": NOT_PASSED,
        "EndsTest.test_rank_1_dies": NOT_PASSED,  # upstream: passed
        "EndsTest.test_rank_1_skips_alone": NOT_PASSED,  # upstream: passed
        "EndsTest.test_same_numbers": PASSED,
        "EndsTest.test_skips": SKIPPED,
        "EndsTest.test_skips_by_decorator": SKIPPED,
        "EndsTest.test_skips_by_exit_code": SKIPPED,
        "EndsTest.test_skips_by_hard_exit": SKIPPED,
        "EndsTest.test_skips_by_method": SKIPPED,
        "EndsTest.test_skips_in_parent": SKIPPED,
        "EndsTest.test_subtests": NOT_PASSED,
        "EndsTest.test_unexpected_success": NOT_PASSED,
        "EndsTest.test_vanishes": NOT_PASSED,  # upstream: passed
        "EnvironmentTest.test_even": PASSED,
        "EnvironmentTest.test_odd": SKIPPED,
        "NoRanksTest.test_fails": NOT_PASSED,  # upstream: passed, because nothing was run
        "OwnProcessesTest.test_started": PASSED,
        "OwnSpawnTest.test_fails": NOT_PASSED,
        "OwnSpawnTest.test_started": PASSED,
        "OwnRunTest.test_all_reduce": PASSED,
        "OwnRunTest.test_fails": NOT_PASSED,
        "OwnRunTest.test_skips_before_running": SKIPPED,
        "ParametrizedTest.test_value_two": NOT_PASSED,
        "ParametrizedTest.test_value_value_1": PASSED,
        "RepeatedRunTest.test_expected_failure": PASSED,
        "RepeatedRunTest.test_fails_on_rank_1": NOT_PASSED,
        "RepeatedRunTest.test_passes": PASSED,
        "RepeatedRunTest.test_skips": SKIPPED,
        "ReturnCodesTest.test_announced": PASSED,
        "ReturnCodesTest.test_announced_and_missed": NOT_PASSED,
        "ReturnCodesTest.test_announced_and_skipped": SKIPPED,
        "ReturnCodesTest.test_announced_signal": PASSED,
        "ReturnCodesTest.test_anything_goes": PASSED,
        "ReturnCodesTest.test_unannounced": NOT_PASSED,
    }

    def test_reasons_of_skips(self) -> None:
        """A skip has the test's own reason, or upstream's text for the exit code."""
        for words in (
            "skipped 'a reason of its own'",
            "skipped 'another reason'",
            "Need at least 8 CUDA devices",
            "Skipped due to odd world size.",
            "Skipped because distributed backend is not available.",
        ):
            self.assertIn(words, self.output)

    def test_a_dead_rank_is_named(self) -> None:
        """The output names the rank that died, and its exit code."""
        self.assertIn("rank 1 crashed: exit code 3", self.output)

    def test_a_coroutine_is_refused_in_a_line(self) -> None:
        """A method that no rank would run is refused before there are ranks."""
        self.assertRegex(self.output, r"(?m)^harness\.errors\.UsageError: test_coroutine is an async def, ")

    def test_the_command_to_run_a_test_again_has_these_ranks(self) -> None:
        """The command that reproduces a failure runs the test on the harness's ranks."""
        file = FILES / self.file
        self.assertIn(f"reproduce: python -m harness.dropin {file} EndsTest.test_raises", self.output)

    def test_upstreams_assertions_are_there(self) -> None:
        """Failures have the messages of upstream's own assertions."""
        self.assertIn("Scalars are not equal!", self.output)


class Continuous(Played):
    """Tests on pooled ranks, where a failure, a death or a skip affects no later test."""

    file = "continuous.py"
    expected: ClassVar[dict[str, str]] = {
        "NoBackendTest.test_not_there": SKIPPED,
        "OwnGroupTest.test_group": PASSED,
        "SharedRanksTest.test_1_reduces": PASSED,
        "SharedRanksTest.test_2_fails": NOT_PASSED,
        "SharedRanksTest.test_3_goes_on": PASSED,  # upstream: skipped, as everything from here on
        "SharedRanksTest.test_4_skips": SKIPPED,
        "SharedRanksTest.test_5_skips_by_exit_code": SKIPPED,
        "SharedRanksTest.test_6_dies": NOT_PASSED,
        "SharedRanksTest.test_7_is_well_again": PASSED,
        "SharedRanksTest.test_8_exits": NOT_PASSED,
        "UnfitGroupTest.test_one": SKIPPED,
        "UnfitGroupTest.test_two": SKIPPED,
    }


# Upstream's continuous base makes meshes from torch 2.12 on.
WITH_MESH = PASSED if torch_at_least("2.12") else NOT_PASSED


class Meshes(Played):
    """Tests on the bases that torch derives from its two multi-process cases: meshes, FSDP, shards, rpc."""

    file = "meshes.py"
    expected: ClassVar[dict[str, str]] = {
        "AgentTest.test_adds_elsewhere": PASSED,
        "AgentTest.test_fails_elsewhere": NOT_PASSED,
        "AgentTest.test_sends_itself": PASSED,
        "ContinuousMeshTest.test_mesh": WITH_MESH,
        "FullyShardedContinuousTest.test_group": SKIPPED,
        "FullyShardedOnCpuTest.test_shards_and_trains": PASSED,
        "FullyShardedOnCpuTest.test_subtests": NOT_PASSED,
        "FullyShardedTest.test_group": SKIPPED,
        "LocalMeshTest.test_in_this_process": PASSED,
        "MeshTest.test_fails": NOT_PASSED,
        "MeshTest.test_redistributes": PASSED,
        "ShardsTest.test_comms": PASSED,
        "ShardsTest.test_needs_gpus": SKIPPED,
        "UnsizedMeshTest.test_mesh": WITH_MESH,
    }


class Wheel(Played):
    """Some tests of torch's wheel, which have to get the verdicts that upstream's own harness gives."""

    file = "distributed_spawn.py"

    @classmethod
    def setUpClass(cls) -> None:
        verdicts = load(kept(2))
        skipped = sorted(test for test, verdict in verdicts.items() if verdict == SKIPPED)
        cls.tests = sample(verdicts) + skipped[::SKIPPED_STEP]
        cls.expected = {test: verdicts[test] for test in cls.tests}
        super().setUpClass()


class ThroughTheRunner(unittest.TestCase):
    """Upstream's files in the workers of ``run_tests.py --drop-in``."""

    def test_one_test_of_the_wheel(self) -> None:
        """One test of the wheel passes in a worker."""
        with tempfile.TemporaryDirectory() as state:
            done = subprocess.run(
                [
                    sys.executable,
                    "run_tests.py",
                    "--drop-in",
                    "-k",
                    "test_get_rank",
                    FILES / "distributed_spawn.py",
                ],
                cwd=ROOT,
                env={**os.environ, "HARNESS_STATE_DIR": state, "BACKEND": "gloo", "WORLD_SIZE": "2"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("3 passed, 0 failed", done.stdout)


CASES = (Ends, Continuous, Meshes, Wheel, ThroughTheRunner)


def load_tests(
    loader: unittest.TestLoader, tests: unittest.TestSuite, pattern: str | None
) -> unittest.TestSuite:
    """Loads the tests of every class but the base."""
    return unittest.TestSuite(loader.loadTestsFromTestCase(c) for c in CASES)


if __name__ == "__main__":
    unittest.main()
