"""Tests that the drop-in is installed when upstream's module is imported, and costs nothing before."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[3]
LATER = """
    import importlib.machinery, sys
    from harness.dropin import install_at_import
    from harness.dropin.at_import import HOME
    install_at_import()
    install_at_import()
    assert "torch" not in sys.modules
    import torch
    assert HOME not in sys.modules
    from torch.testing._internal.common_distributed import MultiProcessTestCase
    from harness.dropin.ranks import UpstreamRanks
    assert MultiProcessTestCase.__bases__[0] is UpstreamRanks, MultiProcessTestCase.__bases__
    module = sys.modules[HOME]
    assert type(module.__spec__.loader) is type(module.__loader__) is importlib.machinery.SourceFileLoader
    assert not any("harness" in type(finder).__module__ for finder in sys.meta_path)
    """
NOW = """
    from torch.testing._internal.common_distributed import MultiProcessTestCase
    from harness.dropin import install_at_import
    install_at_import()
    from harness.dropin.ranks import UpstreamRanks
    assert MultiProcessTestCase.__bases__[0] is UpstreamRanks, MultiProcessTestCase.__bases__
    """


class InstallAtImportTest(unittest.TestCase):
    """``call_at_import``, by ``install_at_import``, in interpreters of their own."""

    def play(self, program: str) -> None:
        """Runs a program, which must not fail."""
        run = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)], cwd=TREE, capture_output=True, text=True
        )
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_later(self) -> None:
        """Before the import there is only a finder; after it the classes are changed and it is gone."""
        self.play(LATER)

    def test_now(self) -> None:
        """Where the module is imported already, its classes are changed at once."""
        self.play(NOW)


if __name__ == "__main__":
    unittest.main()
