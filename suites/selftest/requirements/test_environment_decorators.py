"""Decorators and helpers that change surroundings: what they set, and that they put everything back."""

from __future__ import annotations

import os
import sys
import tempfile
import unittest
from typing import Any
from unittest import mock

import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from harness import RankFailure
from harness.requirements import (
    captured_output,
    retry_on_connect_failures,
    verify_ddp_error_logged,
    with_dist_debug_levels,
    with_nccl_blocking_wait,
)
from harness.requirements.retry import BACKOFF_LIMIT_S, CONNECT_TRIES, backoff_s, retrying

LEVEL = "TORCH_DISTRIBUTED_DEBUG"
BLOCKING, ASYNC = "TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_ASYNC_ERROR_HANDLING"


class DebugLevels(unittest.TestCase):
    def setUp(self) -> None:
        self.seen: list[tuple[str, dist.DebugLevel]] = []
        self.addCleanup(dist.set_debug_level, dist.get_debug_level())

    def note(self, argument: int = 0, *, fail_at: str = "") -> int:
        self.seen.append((os.environ[LEVEL], dist.get_debug_level()))
        if os.environ[LEVEL] == fail_at:
            raise KeyError(fail_at)
        return argument

    def test_each_level_in_turn(self) -> None:
        with mock.patch.dict(os.environ, clear=True):
            dist.set_debug_level(dist.DebugLevel.INFO)
            result = with_dist_debug_levels(["DETAIL", "OFF"])(self.note)(7)
            self.assertNotIn(LEVEL, os.environ)
        self.assertEqual(self.seen, [("DETAIL", dist.DebugLevel.DETAIL), ("OFF", dist.DebugLevel.OFF)])
        self.assertEqual(result, 7)
        self.assertEqual(dist.get_debug_level(), dist.DebugLevel.INFO)

    def test_a_failure_ends_it_and_puts_everything_back(self) -> None:
        with mock.patch.dict(os.environ, {LEVEL: "INFO"}):
            dist.set_debug_level(dist.DebugLevel.OFF)
            with self.assertRaises(KeyError):
                with_dist_debug_levels(["INFO", "DETAIL", "OFF"])(self.note)(fail_at="DETAIL")
            self.assertEqual(os.environ[LEVEL], "INFO")
        self.assertEqual([level for level, _ in self.seen], ["INFO", "DETAIL"])
        self.assertEqual(dist.get_debug_level(), dist.DebugLevel.OFF)

    def test_a_barrier_after_each_level_while_there_is_a_group(self) -> None:
        events: list[str] = []

        @with_dist_debug_levels(["OFF", "info"])
        def noting() -> None:
            events.append(os.environ[LEVEL])

        with mock.patch.object(dist, "barrier", side_effect=lambda: events.append("barrier")):
            noting()
            self.assertEqual(events, ["OFF", "INFO"])
            events.clear()
            with tempfile.TemporaryDirectory() as directory:
                store = dist.FileStore(f"{directory}/store", 1)
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                self.addCleanup(dist.destroy_process_group)
                noting()
        self.assertEqual(events, ["OFF", "barrier", "INFO", "barrier"])


class BlockingWait(unittest.TestCase):
    def seen(self, environ: dict[str, str], fail: bool = False) -> dict[str, str]:
        inside: dict[str, str] = {}

        @with_nccl_blocking_wait
        def body() -> None:
            inside.update(os.environ)
            if fail:
                raise KeyError("body")

        with mock.patch.dict(os.environ, environ, clear=True):
            if fail:
                self.assertRaises(KeyError, body)
            else:
                body()
            self.assertEqual(dict(os.environ), environ)
        return inside

    def test_sets_the_one_and_takes_the_other_away(self) -> None:
        for environ in ({}, {BLOCKING: "0"}, {ASYNC: "1"}, {BLOCKING: "0", ASYNC: "3"}):
            for fail in (False, True):
                with self.subTest(environ=environ, fail=fail):
                    self.assertEqual(self.seen(environ, fail), {BLOCKING: "1"})


class Retry(unittest.TestCase):
    def tried(
        self, *errors: Exception | None, parts: tuple[str, ...] = ("in use",)
    ) -> tuple[Any, list[float]]:
        """What a function that raises these in turn comes to, and the waits between its tries."""
        waits: list[float] = []
        function = mock.Mock(side_effect=[error or "value" for error in errors], __name__="function")
        try:
            return retrying(function, parts, waits.append)(), waits
        except RuntimeError as error:
            return error, waits

    def test_tries_again_until_it_works(self) -> None:
        result, waits = self.tried(RuntimeError("Address already IN USE"), RuntimeError("in use"), None)
        self.assertEqual(result, "value")
        self.assertEqual(len(waits), 2)

    def test_another_error_is_raised_at_once(self) -> None:
        error = RuntimeError("no such host")
        self.assertEqual(self.tried(error, None), (error, []))

    def test_a_failed_assertion_is_raised_at_once(self) -> None:
        """Also that of a test's ranks, which is a RuntimeError, whatever their output says."""
        error = RankFailure("rank 1 failed; its output: address in use")
        self.assertEqual(self.tried(error, None), (error, []))

    def test_letters_of_a_message_are_no_message(self) -> None:
        error = RuntimeError("a d r e s")
        self.assertEqual(self.tried(error, None, parts=("Address already in use",)), (error, []))

    def test_gives_up_and_says_so(self) -> None:
        errors = [RuntimeError(f"in use {n}") for n in range(CONNECT_TRIES)]
        result, waits = self.tried(*errors, None)
        self.assertEqual(
            str(result), f"no connection after {CONNECT_TRIES} tries: in use {CONNECT_TRIES - 1}"
        )
        self.assertIs(result.__cause__, errors[-1])
        self.assertEqual(len(waits), CONNECT_TRIES - 1)

    def test_another_error_on_the_last_try_is_raised_as_it_is(self) -> None:
        last = RuntimeError("something else")
        result, _ = self.tried(*[RuntimeError("in use")] * (CONNECT_TRIES - 1), last)
        self.assertIs(result, last)

    def test_bare_and_with_arguments_and_with_one_string(self) -> None:
        for decorator in (
            retry_on_connect_failures,
            retry_on_connect_failures(),
            retry_on_connect_failures(connect_errors=["connect() timed out.", "address already in use"]),
            retry_on_connect_failures(connect_errors="Address already in use"),
        ):
            calls: list[int] = []

            def flaky(value: int, calls: list[int] = calls) -> int:
                calls.append(value)
                if len(calls) == 1:
                    raise RuntimeError("EADDRINUSE, message: address already in use")
                return value

            with mock.patch("time.sleep"):
                self.assertEqual(decorator(flaky)(3), 3)
            self.assertEqual(calls, [3, 3])

    def test_what_torch_says_of_a_port_that_is_taken(self) -> None:
        first = dist.TCPStore("localhost", 0, 1, True, wait_for_workers=False)
        ports = iter([first.port, 0])

        def make() -> dist.TCPStore:
            return dist.TCPStore("localhost", next(ports), 1, True, wait_for_workers=False)

        waits: list[float] = []
        second = retrying(make, ("Address already in use",), waits.append)()
        self.assertNotEqual(second.port, first.port)
        self.assertEqual(len(waits), 1)

    @given(st.integers(1, 100), st.floats(0, 1, exclude_max=True))
    def test_waits_are_positive_and_bounded(self, attempt: int, chance: float) -> None:
        self.assertLessEqual(backoff_s(attempt, chance), BACKOFF_LIMIT_S)
        self.assertGreater(backoff_s(attempt, chance), 0)
        self.assertGreaterEqual(backoff_s(attempt + 1, chance), backoff_s(attempt, chance))


class Output(unittest.TestCase):
    def test_both_streams_are_taken_in_and_given_back(self) -> None:
        before = sys.stdout, sys.stderr
        with self.assertRaises(KeyError), captured_output() as (out, err):
            print("to out")
            print("to err", file=sys.stderr)
            raise KeyError
        self.assertEqual((out.getvalue(), err.getvalue()), ("to out\n", "to err\n"))
        self.assertEqual((sys.stdout, sys.stderr), before)


class DdpError(unittest.TestCase):
    def check(self, logged: dict[str, Any], wanted: str) -> None:
        verify_ddp_error_logged(mock.Mock(**{"_get_ddp_logging_data.return_value": logged}), wanted)

    def test_a_logged_error(self) -> None:
        logged = {"iteration": 3, "has_error": 1, "error": "Expected all grads"}
        self.check(logged, "all grads")
        self.check(logged, "Expected all grads\nException raised from run at reducer.cpp:1")

    def test_another_error(self) -> None:
        with self.assertRaisesRegex(AssertionError, "logged another error: 'bucket'"):
            self.check({"iteration": 3, "has_error": 1, "error": "Expected all grads"}, "bucket")

    def test_no_error(self) -> None:
        with self.assertRaisesRegex(AssertionError, "no has_error, error in its logging data"):
            self.check({"iteration": 3}, "x")


if __name__ == "__main__":
    unittest.main()
