"""A healthy case that needs a module which nobody has imported before its ranks start."""

from __future__ import annotations

import sys
from typing import Any

from harness.requirements import require
from harness.requirements.kinds import Importable
from suites.selftest.faults.base import FaultyCase

# A small module of Python's that neither the harness nor a library below it uses.
NEEDED = "tabnanny"


class LateImports(FaultyCase):
    """Each rank fails unless its test begins with the module that the requirement names."""

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        if (NEEDED in sys.modules) != (test_name == "test_needed"):
            raise AssertionError(f"{NEEDED} is imported: {NEEDED in sys.modules}")
        super()._run(rank, test_name, file_name, parent_pipe, **kwargs)

    def test_not_needed(self) -> None:
        """Passes if the module is not imported."""

    @require(Importable(module=NEEDED, reason="needs a small module"))
    def test_needed(self) -> None:
        """Passes if the module is imported."""
