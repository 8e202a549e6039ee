"""Tests the values of options that a command line or a configuration file gives."""

from __future__ import annotations

import unittest

from harness.configuration.configuration import Given
from harness.configuration.override import Reruns
from harness.errors import UsageError
from harness.runner.command_line.option_values import given, of_file, wrong_option


class GivenTest(unittest.TestCase):
    """Options that a command line or a configuration file names."""

    def test_given(self) -> None:
        """Exactly those that are named, with their values, also where these are the defaults."""
        for argv, options in (
            ([], {}),
            (["c10d", "--jobs", "auto", "-vv"], {"names": ["c10d"], "jobs": 0, "verbose": 2}),
            (["--slow", "--no-slow"], {"slow": False}),
            (
                ["-k", "a", "--shuffle", "--report=html"],
                {"keywords": ["a"], "shuffle": -1, "report": ["html"]},
            ),
        ):
            with self.subTest(argv):
                self.assertEqual(given(argv), options)

    def test_taken_over(self) -> None:
        """What a command line gave, a later run may take over; other values are told by the option's name."""
        for argv in (
            ["--plugin", "a.b", "--backend", "mine", "--device", "xpu", "--also", "c.d"],
            ["--seed", "5", "--timeout", "2.5", "--shuffle", "--examples", "3", "--ranks", "fresh"],
        ):
            with self.subTest(argv):
                self.assertIsNone(wrong_option(given(argv)))
        for name, value in (("plugin", "a-b"), ("plugin", 3), ("seed", "5"), ("timeout", "3")):
            with self.subTest(name, value=value):
                self.assertEqual(wrong_option({name: value}), name)

    def test_of_a_file(self) -> None:
        """Values of the file are what the command line makes of the same words."""
        for name, value, options in (
            ("jobs", 3, {"jobs": 3}),
            ("jobs", "auto", {"jobs": 0}),
            ("isolate", True, {"isolate": True}),
            ("isolate", False, {"isolate": False}),
            ("reruns", Reruns(2, 1.0), {"reruns": 2}),
            ("include", ["a", "b"], {"include": ["a", "b"]}),
            ("verbose", 2, {"verbose": 2}),
            ("shuffle", True, {"shuffle": -1}),
        ):
            with self.subTest(name, value=value):
                self.assertEqual(of_file({name: Given(value, "x:1")}), options)

    def test_refused_in_a_file(self) -> None:
        """The message begins with the place in the file."""
        for name, value, said in (
            ("jobs", 0, "x.toml:1: jobs: '0': write a whole number"),
            ("flaky", "maybe", "x.toml:1: flaky: invalid choice: 'maybe'"),
            ("jobs", True, "x.toml:1: jobs: expected one argument"),
        ):
            with self.subTest(name), self.assertRaises(UsageError) as caught:
                of_file({name: Given(value, "x.toml:1")})
            self.assertIn(said, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
