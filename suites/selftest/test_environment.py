"""The environment is read once, and again as soon as it is another."""

from __future__ import annotations

import os
import unittest
from unittest import mock

from harness import environment
from harness.errors import UsageError
from harness.settings import Settings


class SurroundingsTest(unittest.TestCase):
    def test_they_are_those_of_now(self) -> None:
        self.assertEqual(environment.environment(), dict(os.environ))
        with mock.patch.dict(os.environ, HARNESS_GRACE="7"):
            self.assertEqual(environment.environment()["HARNESS_GRACE"], "7")
            self.assertEqual(environment.settings().grace_s, 7.0)
        self.assertEqual(environment.settings(), Settings.from_environ(os.environ))

    def test_a_bad_value_is_refused_each_time(self) -> None:
        with mock.patch.dict(os.environ, HARNESS_GRACE="soon"):
            for _ in range(2):
                with self.assertRaisesRegex(UsageError, "HARNESS_GRACE"):
                    environment.settings()

    def test_nothing_is_read_twice(self) -> None:
        first = environment.settings()
        with mock.patch.object(Settings, "from_environ", side_effect=AssertionError("read again")):
            self.assertIs(environment.settings(), first)


if __name__ == "__main__":
    unittest.main()
