"""Tests the command that runs a test of Bazel's again."""

from __future__ import annotations

import unittest

from harness import bazel_command


class CommandTest(unittest.TestCase):
    """It names the target and what the test's environment needs."""

    def test_table(self) -> None:
        by_bazel = {"TEST_TARGET": "//a:test_b", "TEST_SRCDIR": "/gone"}
        for environ, variables, expected in (
            ({}, {}, None),
            ({"TEST_TARGET": "mine"}, {}, None),
            ({"TEST_TARGET": "", "TEST_SRCDIR": "/gone"}, {}, None),
            (by_bazel, {}, "bazel test //a:test_b"),
            (by_bazel, {"A": "b c", "N": "1"}, "bazel test //a:test_b '--test_env=A=b c' --test_env=N=1"),
        ):
            with self.subTest(environ=environ, variables=variables):
                self.assertEqual(bazel_command.command(environ, variables), expected)

    def test_options(self) -> None:
        self.assertEqual(bazel_command.only("T.test_a"), "--test_filter=T.test_a")
        self.assertEqual(bazel_command.with_variable("N", 5), "--test_env=N=5")

    def test_is_bazel(self) -> None:
        for command, expected in (("bazel test //a", True), ("python run_tests.py bazel test", False)):
            self.assertIs(bazel_command.is_bazel(command), expected)


if __name__ == "__main__":
    unittest.main()
