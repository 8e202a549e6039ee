"""Self-tests of harness.requirements.attach: requirements are read without running tests, and enforced."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
import unittest
from unittest import mock

from harness import requirements as r
from harness.requirements import probes
from suites.selftest.requirements.sample_machines import BARE, CPU, CUDA_2, run, skips


class Data(unittest.TestCase):
    """Requirements read from a test without running it."""

    def test_everything_that_can_be_read(self) -> None:
        """Every decorator on one test shows in the merged requirements."""

        class Case(unittest.TestCase):
            @r.requires_world_size(4)
            @r.skip_if_small_worldsize
            @r.skip_if_odd_worldsize
            @r.skip_if_lt_x_gpu(3, allow_cpu=True)
            @r.requires_backend("nccl", "gloo")
            @r.requires_gloo()
            @r.requires_device_type("cpu", "cuda")
            @r.slowTest
            @r.timeout(90)
            @r.exclusive
            @r.cpu_slots(2)
            @r.memory_mb(700)
            @r.skipIfRocm
            @r.skip_if_win32()
            @r.import_transformers_or_skip()
            def test_it(self) -> None: ...

        got = r.requirements_of(Case, "test_it")
        self.assertEqual(got.world_size, 4)
        self.assertEqual((got.min_gpus, got.gpu_per_rank), (3, True))
        self.assertEqual((got.slow, got.timeout_s, got.exclusive), (True, 90.0, True))
        self.assertEqual((got.cpu_slots, got.memory_mb), (2, 700))
        self.assertEqual(got.imports, ("transformers",))
        self.assertEqual(len(got.items), 15)
        reasons = [item.reason for item in got.items]
        self.assertTrue(all(reasons))
        self.assertEqual(reasons[0], "runs on 4 ranks, one accelerator each")
        self.assertEqual(reasons[-1], "needs the transformers package")

    def test_a_test_that_asks_for_nothing(self) -> None:
        class Case(unittest.TestCase):
            def test_it(self) -> None: ...

        self.assertEqual(r.requirements_of(Case, "test_it"), r.Requirements())
        self.assertEqual(r.requirements_of(Case("test_it"), "test_it"), r.Requirements())

    def test_a_name_that_is_no_test(self) -> None:
        with self.assertRaisesRegex(ValueError, "TestCase has no test 'test_it'"):
            r.requirements_of(unittest.TestCase, "test_it")

    def test_it_can_be_sent_to_another_process_and_compared(self) -> None:
        class Case(unittest.TestCase):
            @r.requires_world_size(2)
            @r.timeout(3)
            def test_it(self) -> None: ...

        got = r.requirements_of(Case, "test_it")
        self.assertEqual(pickle.loads(pickle.dumps(got)), got)
        self.assertEqual(len({got, r.requirements_of(Case, "test_it")}), 1)
        self.assertEqual(pickle.loads(pickle.dumps(CUDA_2)), CUDA_2)

    def test_reading_needs_neither_torch_nor_a_probe(self) -> None:
        script = textwrap.dedent("""
            import sys, unittest
            from harness.requirements import *
            from harness.requirements import requirements_of

            @requires_nccl()
            @skip_if_lt_x_gpu(2)
            @skip_if_no_gpu
            class Case(unittest.TestCase):
                @requires_world_size(3)
                @requires_multicast_support()
                @import_transformers_or_skip()
                @with_dist_debug_levels(["INFO"])
                @retry_on_connect_failures
                @requires_backend("gloo")
                def test_it(self): raise AssertionError("the test ran")

            names = unittest.defaultTestLoader.getTestCaseNames(Case)
            got = requirements_of(Case, *names)
            print(got.world_size, got.min_gpus, len(got.items), "torch" in sys.modules)
        """)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout, "3 2 7 False\n", done.stderr)

    def test_checks_that_need_no_torch_import_none(self) -> None:
        """A test runs without torch where its requirements ask nothing of it, whoever checks them."""
        script = textwrap.dedent("""
            import sys, unittest
            from harness.requirements import *
            from harness.requirements import skip_reason

            @timeout(5)
            @exclusive
            class Case(unittest.TestCase):
                world_size = 8

                @cpu_slots(1)
                @memory_mb(1)
                @skip_if_small_worldsize
                @skip_if_odd_worldsize
                @skip_if_win32()
                @timeout(2)
                @exclusive
                @slowTest
                def test_it(self): pass

            case = Case("test_it")
            print(skip_reason(case), case.run().skipped, "torch" in sys.modules)
        """)
        environ = {**os.environ, "PYTORCH_TEST_WITH_SLOW": "1"}
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environ
        )
        self.assertEqual(done.stdout, "None [] False\n", done.stderr)


class Order(unittest.TestCase):
    """Decorators one above the other: the outer one is checked first, and the nearest demand wins."""

    def test_the_outer_reason_is_told(self) -> None:
        """Of two requirements that are not met, the outer one gives the reason."""

        class Case(unittest.TestCase):
            @r.requires_gloo()
            @r.requires_cuda
            def test_gloo_outside(self) -> None: ...

            @r.requires_cuda
            @r.requires_gloo()
            def test_cuda_outside(self) -> None: ...

        reasons = skips(run(Case, BARE))
        self.assertIn("gloo", reasons["test_gloo_outside"])
        self.assertIn("cuda", reasons["test_cuda_outside"])
        with mock.patch.object(probes, "probe", return_value=BARE):
            for name, reason in reasons.items():
                self.assertEqual(r.skip_reason(Case(name)), reason)

    def test_the_nearest_demand_wins(self) -> None:
        @r.timeout(10)
        @r.requires_world_size(2)
        class Base(unittest.TestCase):
            @r.timeout(30)
            @r.timeout(20)
            def test_own(self) -> None: ...

            def test_none(self) -> None: ...

        @r.timeout(40)
        class Derived(Base):
            @r.requires_world_size(3)
            def test_derived(self) -> None: ...

        for cls, name, expected in (
            (Base, "test_own", (30, 2)),
            (Base, "test_none", (10, 2)),
            (Derived, "test_own", (30, 2)),
            (Derived, "test_none", (40, 2)),
            (Derived, "test_derived", (40, 3)),
        ):
            with self.subTest(cls=cls.__name__, name=name):
                got = r.requirements_of(cls, name)
                self.assertEqual((got.timeout_s, got.world_size), expected)

    def test_one_function_under_two_decorators_stays_two_tests(self) -> None:
        def body(self: unittest.TestCase) -> None: ...

        class Case(unittest.TestCase):
            test_short = r.timeout(1)(body)
            test_long = r.timeout(9)(body)
            test_plain = body

        limits = [r.requirements_of(Case, f"test_{name}").timeout_s for name in ("short", "long", "plain")]
        self.assertEqual(limits, [1, 9, None])

    def test_an_override_brings_its_own(self) -> None:
        class Base(unittest.TestCase):
            @r.requires_cuda
            def test_it(self) -> None: ...

        class Derived(Base):
            def test_it(self) -> None: ...

        self.assertEqual(r.requirements_of(Derived, "test_it"), r.Requirements())


class Company(unittest.TestCase):
    """Decorators of other libraries above and below ours."""

    def test_unittest_skip(self) -> None:
        class Case(unittest.TestCase):
            @unittest.skip("theirs")
            @r.requires_cuda
            def test_above(self) -> None: ...

            @r.requires_cuda
            @unittest.skip("theirs")
            def test_below(self) -> None: ...

            @r.requires_gloo()
            @unittest.skipIf(False, "not")
            def test_runs(self) -> None: ...

        self.assertEqual(skips(run(Case)), {"test_above": "theirs", "test_below": "theirs"})
        self.assertEqual(
            [item.reason for item in r.requirements_of(Case, "test_above").items], ["needs a cuda device"]
        )

    def test_expected_failure(self) -> None:
        class Case(unittest.TestCase):
            @unittest.expectedFailure
            @r.requires_gloo()
            def test_above(self) -> None:
                self.fail()

            @r.requires_gloo()
            @unittest.expectedFailure
            def test_below(self) -> None:
                self.fail()

        self.assertEqual(len(run(Case).expectedFailures), 2)
        skipped = run(Case, BARE)
        self.assertEqual((len(skipped.skipped), len(skipped.expectedFailures)), (2, 0))

    def test_mock_patch(self) -> None:
        class Case(unittest.TestCase):
            @mock.patch("os.getcwd", return_value="mocked")
            @r.requires_world_size(2)
            def test_above(self, getcwd: mock.Mock) -> None:
                assert getcwd() == "mocked"

            @r.requires_world_size(2)
            @mock.patch("os.getcwd", return_value="mocked")
            def test_below(self, getcwd: mock.Mock) -> None:
                assert getcwd() == "mocked"

        result = run(Case)
        self.assertEqual((result.testsRun, result.errors), (2, []))
        for name in ("test_above", "test_below"):
            self.assertEqual(r.get_required_world_size(Case(name), 5), 2)

    def test_parametrize_of_torch(self) -> None:
        from torch.testing._internal.common_utils import instantiate_parametrized_tests, parametrize

        seen = []

        class Case(unittest.TestCase):
            @parametrize("x", [1, 2])  # type: ignore[untyped-decorator, unused-ignore]  # torch leaves it untyped
            @r.timeout(4)
            def test_above(self, x: int) -> None:
                seen.append(x)

            @r.timeout(4)
            @parametrize("x", [3, 4])  # type: ignore[untyped-decorator, unused-ignore]  # torch leaves it untyped
            def test_below(self, x: int) -> None:
                seen.append(x)

        instantiate_parametrized_tests(Case)
        self.assertEqual((run(Case).errors, sorted(seen)), ([], [1, 2, 3, 4]))
        for name in ("test_above_x_1", "test_below_x_4"):
            self.assertEqual(r.requirements_of(Case, name).timeout_s, 4)

    def test_marks_of_torchs_own_decorators(self) -> None:
        from torch.testing._internal.common_utils import slowTest

        class Case(unittest.TestCase):
            @slowTest  # type: ignore[untyped-decorator, unused-ignore]  # torch leaves it untyped
            def test_slow(self) -> None: ...

            def test_size(self) -> None: ...

            test_size._required_world_size = 3  # type: ignore[attr-defined]  # as torch's decorator does

        self.assertTrue(r.requirements_of(Case, "test_slow").slow)
        self.assertEqual(r.get_required_world_size(Case("test_size"), 2), 3)

    def test_our_marks_for_torchs_harness(self) -> None:
        from torch.testing._internal.common_distributed import get_required_world_size

        class Case(unittest.TestCase):
            @r.requires_world_size(3)
            def test_size(self) -> None: ...

            @r.slowTest
            def test_slow(self) -> None: ...

        self.assertEqual(get_required_world_size(Case("test_size"), 2), 3)
        self.assertTrue(Case.test_slow.__dict__["slow_test"])

    def test_a_coroutine_stays_one(self) -> None:
        ran = []

        class Case(unittest.IsolatedAsyncioTestCase):
            @r.requires_gloo()
            async def test_runs(self) -> None:
                ran.append(self)

            @r.requires_cuda
            async def test_skips(self) -> None:
                ran.append(self)

        result = run(Case)
        self.assertEqual((len(ran), list(skips(result)), result.errors), (1, ["test_skips"], []))

    def test_a_function_outside_any_class(self) -> None:
        @r.requires_gloo()
        def double(value: int = 1) -> int:
            return 2 * value

        with mock.patch.object(probes, "probe", return_value=CPU):
            self.assertEqual((double(), double(4), double(value=5)), (2, 8, 10))
        with mock.patch.object(probes, "probe", return_value=BARE), self.assertRaises(unittest.SkipTest):
            double()

    def test_a_skip_that_the_test_handles(self) -> None:
        class Case(unittest.TestCase):
            handled: tuple[str, ...] = ()

            def _handle_test_skip(self, message: str) -> None:
                self.handled += (message,)

            @r.skip_if_lt_x_gpu(2)
            def test_count(self) -> None:
                self.fail("the test ran")

            @r.requires_cuda
            def test_type(self) -> None:
                self.fail("the test ran")

        counting = Case("test_count")
        with mock.patch.object(probes, "probe", return_value=CPU):
            counting.debug()
        self.assertEqual(counting.handled, ("needs 2 accelerators, found no accelerator",))
        self.assertEqual(list(skips(run(Case))), ["test_type"])


class WorldSize(unittest.TestCase):
    """The function ``get_required_world_size``, on decorated methods."""

    def test_what_the_running_test_demands(self) -> None:
        @r.requires_world_size(6)
        class Case(unittest.TestCase):
            @r.requires_world_size(3)
            def test_own(self) -> None: ...

            def test_class(self) -> None: ...

        self.assertEqual(r.get_required_world_size(Case("test_own"), 2), 3)
        self.assertEqual(r.get_required_world_size(Case("test_class"), 2), 6)
        self.assertEqual(r.get_required_world_size(unittest.TestCase(), 2), 2)
        self.assertEqual(r.get_required_world_size(object(), 2), 2)

    def test_a_harness_may_name_the_test_itself(self) -> None:
        class Case(unittest.TestCase):
            @r.requires_world_size(3)
            def test_it(self) -> None: ...

            def _current_test_name(self) -> str:
                return "test_it"

            def runTest(self) -> None: ...

        self.assertEqual(r.get_required_world_size(Case(), 2), 3)
        with mock.patch.object(probes, "probe", return_value=CUDA_2):
            self.assertIn("3 ranks", str(r.skip_reason(Case())))


if __name__ == "__main__":
    unittest.main()
