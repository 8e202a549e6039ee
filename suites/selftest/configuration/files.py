"""Directories with configuration files, for the tests beside this file."""

from __future__ import annotations

import tempfile
import textwrap
import unittest
from pathlib import Path

from harness.configuration.configuration import Configuration, parse
from harness.configuration.document import find


class FileCase(unittest.TestCase):
    """Base class of tests with a directory of their own."""

    def setUp(self) -> None:
        """Makes the directory."""
        temporary = tempfile.TemporaryDirectory(prefix="harness-selftest-")
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name).resolve()

    def write(self, text: str, name: str = "torch-harness.toml") -> Path:
        """Writes a file below the directory."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def parsed(self, text: str, profile: str | None = None) -> Configuration:
        """Returns the configuration in ``torch-harness.toml`` with this text."""
        self.write(text)
        return parse(find(self.directory), profile)
