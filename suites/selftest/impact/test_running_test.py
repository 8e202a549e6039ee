"""Tests how it is said which test runs."""

from __future__ import annotations

import os
import unittest
from unittest import mock

from harness.impact.running_test import noted, running_test
from harness.settings import EnvVar


class NotedTest(unittest.TestCase):
    """``noted``, with and without its variable."""

    def during(self, **variables: str) -> tuple[str, bytes, str | None]:
        """What is said in a context and in one inside of it, and the variable afterwards."""
        with mock.patch.dict(os.environ, variables):
            if not variables:
                os.environ.pop(EnvVar.RUNNING_TEST, None)
            with noted("m.T.x"):
                said = os.environ.get(EnvVar.RUNNING_TEST, "unset")
                with noted("inner"):
                    return said, running_test(), os.environ.get(EnvVar.RUNNING_TEST)

    def test_table(self) -> None:
        """It is said where the variable asks for it; the test that runs others stays the one that runs."""
        for variables, said in (
            ({EnvVar.RUNNING_TEST: ""}, "m.T.x"),
            ({EnvVar.RUNNING_TEST: "outer"}, "outer"),
            ({}, "unset"),
        ):
            with self.subTest(said):
                running = "" if said == "unset" else said
                self.assertEqual(self.during(**variables), (said, running.encode(), running or None))

    def test_over(self) -> None:
        """After the context no test runs, also where it fails."""
        with mock.patch.dict(os.environ, {EnvVar.RUNNING_TEST: ""}):
            with self.assertRaises(KeyError), noted("m.T.x"):
                raise KeyError
            self.assertEqual(running_test(), b"")


if __name__ == "__main__":
    unittest.main()
