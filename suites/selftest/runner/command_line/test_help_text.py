"""Tests that the text around the options tells of every other command, exit code and variable."""

from __future__ import annotations

import unittest

from harness.runner.cli import COMMANDS
from harness.runner.command_line.help_text import epilog
from harness.runner.exit_codes import ExitCode
from harness.runner.selection.shard_variables import FAMILIES, SLURM, STATUS_FILE
from harness.variables import VARIABLES


class EpilogTest(unittest.TestCase):
    """The text below the options."""

    def test_complete(self) -> None:
        """Every other command, exit code and variable is in the text."""
        text = epilog()
        for command in COMMANDS:
            self.assertRegex(text, rf"(?m)^  {command} .*\w")
        for code in ExitCode:
            self.assertRegex(text, rf"(?m)^  {code.value} +\w")
        for variable in VARIABLES:
            self.assertIn(variable.name, text)
        for family in FAMILIES:
            self.assertIn(f"{family.index}, {family.total}", text)
        for name in (SLURM.index, SLURM.total, STATUS_FILE):
            self.assertIn(name, text)


if __name__ == "__main__":
    unittest.main()
