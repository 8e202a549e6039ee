"""Cases that fail below decorators and helpers of the harness, whose frames no text of a failure shows."""

from __future__ import annotations

from typing import Any, NoReturn

from harness import (
    MultiThreadedTestCase,
    TestCase,
    instantiate_parametrized_tests,
    parametrize,
    requires_gloo,
    retry_on_connect_failures,
    run_subtests,
    with_comms,
    with_dist_debug_levels,
    with_nccl_blocking_wait,
)
from suites.selftest.faults.base import FaultyCase

# The frames of each test's failure: functions in the order of the text, exceptions separated by semicolons.
FRAMES = {
    "test_assertion": "test_assertion",
    "test_decorated": "test_decorated",
    "test_levels": "test_levels fail_here",
    "test_comms": "test_comms fail_here",
    "test_retried": "test_retried connect",
    "test_cause": "test_cause connect; test_cause",
    "test_subtests": "fail_here",  # the sub-test is the harness's own, and catches the failure
    "test_helper": "test_helper decorated_helper fail_here",
    "test_parametrized_n_1": "test_parametrized",
}


class FramesTests(TestCase):
    """The tests, each of which fails on every rank."""

    @retry_on_connect_failures
    def connect(self) -> NoReturn:
        """Raises an error that is not retried."""
        raise KeyError("no such host")

    @with_nccl_blocking_wait
    def decorated_helper(self) -> None:
        """Fails, in a function with a decorator that is called by the test."""
        self.fail_here()

    def fail_here(self, **_: Any) -> None:
        """Fails an assertion."""
        self.assertEqual(1, 2)

    def test_assertion(self) -> None:
        self.assertEqual([1], [2])

    @requires_gloo()
    @with_nccl_blocking_wait
    def test_decorated(self) -> None:
        self.assertTrue(False)

    @with_dist_debug_levels(["OFF"])
    def test_levels(self) -> None:
        self.fail_here()

    @with_comms
    def test_comms(self) -> None:
        self.fail_here()

    @requires_gloo()
    def test_retried(self) -> None:
        self.connect()

    def test_cause(self) -> None:
        try:
            self.connect()
        except KeyError as error:
            raise ValueError("not connected") from error

    def test_subtests(self) -> None:
        run_subtests(self, {"n": [1]}, self.fail_here)

    def test_helper(self) -> None:
        self.decorated_helper()

    @requires_gloo()
    @parametrize("n", [1])
    def test_parametrized(self, n: int) -> None:
        self.assertEqual(n, 2)


@instantiate_parametrized_tests
class InParent(FramesTests):
    """The tests in the process of unittest."""


@instantiate_parametrized_tests
class OnProcess(FramesTests, FaultyCase):
    """On one rank that is a process."""

    world_size = 1


@instantiate_parametrized_tests
class OnThread(FramesTests, MultiThreadedTestCase):
    """On one rank that is a thread."""

    world_size = 1
