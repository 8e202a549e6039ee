"""Tests what ``--show-config`` tells: each value with where it comes from."""

from __future__ import annotations

import os

from harness.configuration.keys import KEYS
from harness.runner.command_line.invocation import resolve
from harness.runner.command_line.options import parse
from harness.runner.command_line.shown_configuration import lines_of
from harness.settings import EnvVar
from suites.selftest.configuration.files import FileCase

FILE = """\
timeout = 5
seed = 6
jobs = 2
report = "html"
[environment]
A = "1"
B = "1"
[profiles.ci]
seed = 7
reruns = { count = 2, delay = 1 }
[[overrides]]
tests = "a"
timeout = 9
quarantine = { until = 2030-01-02, reason = "r" }
[groups.ports]
limit = 3
"""


class ShownTest(FileCase):
    """The lines that ``lines_of`` makes."""

    def shown(self, *argv: str, **environ: str) -> dict[str, tuple[str, str]]:
        """Returns value and origin by key; other lines by themselves."""
        before = os.getcwd()
        os.chdir(self.directory)
        try:
            lines = list(lines_of(resolve(parse(argv), argv, environ)))
        finally:
            os.chdir(before)
        self.lines = lines
        pairs = (line.split("  ", 1) for line in lines if " = " in line and not line.startswith(" "))
        return {text.split(" = ")[0]: (text.split(" = ", 1)[1], rest.strip()) for text, rest in pairs}

    def test_origins(self) -> None:
        """Command line, environment, profile, file, default: the first that says something is told."""
        self.write(FILE)
        found = self.shown("--profile=ci", "--jobs=auto", HARNESS_TIMEOUT="8", B="2")
        for name, value, origin in (
            ("jobs", "0", "command line"),
            ("timeout", "8", f"environment: {EnvVar.TIMEOUT}"),
            ("seed", "7", "profile ci, torch-harness.toml:9"),
            ("reruns", "{ count = 2, delay = 1.0 }", "profile ci, torch-harness.toml:10"),
            ("report", '["html"]', "torch-harness.toml:4"),
            ("grace", "1.0", "default"),
            ("strict", "false", "default"),
            ("backend", "none", "default"),
            ("environment.A", '"1"', "torch-harness.toml:6"),
            ("environment.B", '"2"', "environment"),
            ("groups.ports.limit", "3", "torch-harness.toml:15"),
        ):
            with self.subTest(name):
                self.assertEqual(found[name], (value, origin))
        self.assertLessEqual({key.name for key in KEYS}, set(found))
        self.assertIn("torch-harness.toml:11", self.lines[-1])
        self.assertIn('timeout = 9.0, quarantine = { until = "2030-01-02", reason = "r" }', self.lines[-1])

    def test_without_a_file(self) -> None:
        """All is at its default, and there is no file and no profile."""
        found = self.shown(HARNESS_CONFIG="none")
        self.assertEqual({origin for _, origin in found.values()}, {"default"})
        self.assertEqual(self.lines[:2], ["file: none", "profile: none"])


if __name__ == "__main__":
    import unittest

    unittest.main()
