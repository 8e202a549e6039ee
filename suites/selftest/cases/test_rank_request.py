"""Tests the job that is made of a case: what its ranks are asked to do. No rank is started."""

from __future__ import annotations

import unittest
from collections.abc import Hashable
from typing import Any

from harness import MultiProcessTestCase, MultiThreadedTestCase
from harness.cases import defaults
from harness.errors import LaunchError, UsageError
from harness.ranks.deadlines import start_wait_of
from harness.ranks.job import Job
from harness.requirements import communication_check, requires_world_size, timeout
from harness.settings import Settings


class Cases:
    """Holds the cases, so that unittest does not collect them."""

    class Plain(MultiProcessTestCase):
        """A case that overrides nothing but its number of ranks."""

        world_size = 2

        def test_it(self) -> None:
            """The method that ranks are asked to run."""

        @timeout(7)
        def test_with_deadline(self) -> None:
            """One with a deadline of its own."""

        @communication_check("error")
        def test_checked(self) -> None:
            """One whose communication is judged strictly."""

    class Unsaid(MultiProcessTestCase):
        """A case that does not say its number of ranks."""

        def test_it(self) -> None:
            """One that does not, either."""

        @requires_world_size(3)
        def test_on_three(self) -> None:
            """One that does."""

    class Both(Plain):
        """A case that says its number of ranks, with tests that say it, too."""

        @requires_world_size(2)
        def test_same(self) -> None:
            """One that says the same."""

        @requires_world_size(3)
        def test_other(self) -> None:
            """One that says another one."""

    class Threads(MultiThreadedTestCase):
        """A case on threads."""

        @requires_world_size(3)
        def test_on_three(self) -> None:
            """One that says its number."""

    class BothThreads(Threads):
        """The same, with a number of the class."""

        world_size = 2

    class Special(Plain):
        """A case that overrides what there is to override."""

        import_in_ranks = True
        rank_log_suffix = ".attempt2"

        def _current_test_name(self) -> str:
            return "test_checked"

        def _pool_key(self) -> Hashable:
            return "mine"

        def _keeps_group(self) -> bool:
            return True

        def _run_arguments(self, world_size: int) -> dict[str, Any]:
            return {"ranks": world_size}


class RankRequestTest(unittest.TestCase):
    """``_job`` and the answers of which it is made."""

    def job(
        self,
        case: MultiProcessTestCase | MultiThreadedTestCase,
        timeout_s: float | None = None,
        values: str = "",
        settings: Settings = Settings(),  # noqa: B008 - frozen
    ) -> Job:
        """The job of a case."""
        return case._job(settings, timeout_s, values)

    def test_of_a_plain_case(self) -> None:
        """The case, its method, its number of ranks and the deadline of the settings."""
        job = self.job(Cases.Plain("test_it"))
        self.assertIs(job.case, Cases.Plain)
        self.assertEqual((job.pool_key, job.keeps_group, job.attempt), (None, False, ""))
        self.assertEqual(job.timeout_s, Settings().timeout_s)
        request = job.request
        self.assertEqual(
            (request.qualname, request.method, request.world_size), ("Cases.Plain", "test_it", 2)
        )
        self.assertEqual(request.kwargs, {"fake_pg": False})
        self.assertTrue(request.preload)
        self.assertEqual(request.least_hosts, 1)

    def test_overridden(self) -> None:
        """Each answer of a class is in its job."""
        job = self.job(Cases.Special("test_it"))
        self.assertEqual((job.pool_key, job.keeps_group, job.attempt), ("mine", True, ".attempt2"))
        self.assertEqual((job.request.method, job.request.kwargs), ("test_checked", {"ranks": 2}))
        self.assertFalse(job.request.preload)

    def test_number_of_a_test(self) -> None:
        """A test's decorator says it, where its class does not."""
        self.assertEqual(self.job(Cases.Unsaid("test_on_three")).request.world_size, 3)
        self.assertEqual(self.job(Cases.Unsaid("test_it")).request.world_size, defaults.world_size())

    def test_number_on_threads(self) -> None:
        """It is the same on threads."""
        self.assertEqual(self.job(Cases.Threads("test_on_three")).request.world_size, 3)

    def test_two_numbers(self) -> None:
        """Where class and test say different numbers the test is an error that says both, in one line."""
        self.assertEqual(self.job(Cases.Both("test_same")).request.world_size, 2)
        for case in (Cases.Both("test_other"), Cases.BothThreads("test_on_three")):
            with self.subTest(case), self.assertRaises(UsageError) as caught:
                self.job(case)
            words = rf"{case.id()}: @requires_world_size\(3\) contradicts the world_size of 2: leave one .*\Z"
            self.assertRegex(str(caught.exception), words)

    def test_deadline(self) -> None:
        """The test's own goes before the settings'; that of a second attempt goes before both."""
        for method, timeout_s, wanted in (
            ("test_it", None, 50.0),
            ("test_with_deadline", None, 7.0),
            ("test_with_deadline", 3.0, 3.0),
        ):
            with self.subTest(method, timeout_s=timeout_s):
                settings = Settings(timeout_s=50.0)
                job = self.job(Cases.Plain(method), timeout_s, settings=settings)
                self.assertEqual(job.timeout_s, wanted)
                start_s = wanted + start_wait_of(settings) if timeout_s is None else timeout_s
                self.assertEqual(job.request.start_timeout_s, start_s)

    def test_directories(self) -> None:
        """Where numbers and cells are kept is in the request of a run that keeps them."""
        self.assertEqual(self.job(Cases.Plain("test_it")).request.values, "")
        settings = Settings(conformance="/cells")
        request = self.job(Cases.Plain("test_it"), values="/values", settings=settings).request
        self.assertEqual(request.values, "/values")
        self.assertTrue(request.cells.startswith("/cells"), request.cells)

    def test_communication_check(self) -> None:
        """What the test says goes; None is the default."""
        self.assertEqual(Cases.Plain("test_checked")._communication_check(), "error")

    def test_number_as_text(self) -> None:
        """Tests that take their world size from the environment, as torch's own do, have it as text."""
        case = type("Sized", (Cases.Plain,), {"world_size": "2"})("test_it")
        self.assertEqual(self.job(case).request.world_size, 2)

    def test_refused(self) -> None:
        """A number that is none, and a class that ranks cannot import."""
        for size in (0, -1, "several", None, "0", 2.0):
            with self.subTest(size=size):
                case = type("Sized", (Cases.Plain,), {"world_size": size})("test_it")
                with self.assertRaisesRegex(ValueError, "world_size is .*: it has to be a whole number"):
                    self.job(case)

        class Inside(Cases.Plain):
            """A class of this function."""

        with self.assertRaisesRegex(LaunchError, "define test classes at the top of a module"):
            self.job(Inside("test_it"))


if __name__ == "__main__":
    unittest.main()
