"""Self-tests of harness.requirements.retry: what is tried again, how often, and after which waits."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from harness import RankFailure
from harness.requirements import retry_on_connect_failures
from harness.requirements.retry import BACKOFF_LIMIT_S, CONNECT_TRIES, backoff_s, retrying


class RetryTest(unittest.TestCase):
    """The decorator ``retry_on_connect_failures``, on failing functions."""

    def tried(
        self, *errors: Exception | None, parts: tuple[str, ...] = ("in use",)
    ) -> tuple[Any, list[float]]:
        """The result or error of a function that raises these in turn, and the waits between its tries."""
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
        """A failed assertion is never retried, even where its text looks like a connect error."""
        error = RankFailure("rank 1 failed; its output: address in use")
        self.assertEqual(self.tried(error, None), (error, []))

    def test_letters_of_a_message_are_no_message(self) -> None:
        """The part has to be in the message as a whole."""
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


if __name__ == "__main__":
    unittest.main()
