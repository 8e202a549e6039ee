"""``TableCase``: tests that compare what AOTAutograd makes of programs with the sections of a file."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path

from torch._functorch import config

from harness import TestCase
from suites.accepted_sections import accepted_sections, check_section


class TableCase(TestCase):
    """Warnings are left out, and nothing comes from the cache: graphs from it are not compiled again."""

    #: The file.
    accepted: Path

    def setUp(self):
        super().setUp()
        self.sections = accepted_sections(self.accepted)
        around = contextlib.ExitStack()
        self.addCleanup(around.close)
        around.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        around.enter_context(config.patch(enable_autograd_cache=False))

    def check(self, name, found):
        """Check that a section of the file has these lines."""
        check_section(self, self.sections, name, found)
