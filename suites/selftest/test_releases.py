"""Tests the comparison of torch releases."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch

from harness.errors import UsageError
from harness.releases import torch_at_least, torch_between


class ReleaseTest(unittest.TestCase):
    """The functions ``torch_at_least`` and ``torch_between``, on versions of every form."""

    def test_releases(self) -> None:
        """Versions compare by their numbers, and a pre-release counts as its release."""
        for version, yes, no in (
            ("2.13.0+cpu", ("2.9", "2.13"), ("2.14", "3.0")),
            ("2.14.0a0+git1234", ("2.14",), ("2.15",)),
        ):
            with mock.patch.object(torch, "__version__", version):
                self.assertEqual([torch_at_least(release) for release in yes], [True] * len(yes))
                self.assertEqual([torch_at_least(release) for release in no], [False] * len(no))

    def test_between(self) -> None:
        """The first limit belongs to the range and the second does not; None is no limit."""
        with mock.patch.object(torch, "__version__", "2.13.0+cpu"):
            for since, before, inside in (
                (None, None, True),
                ("2.13", None, True),
                ("2.14", None, False),
                (None, "2.14", True),
                (None, "2.13", False),
                ("2.12", "2.14", True),
                ("2.11", "2.12", False),
            ):
                with self.subTest(since=since, before=before):
                    self.assertEqual(torch_between(since, before), inside)

    def test_not_imported(self) -> None:
        """A process without torch does not import it, unless nothing else knows its version."""
        ask = (
            "import sys; from importlib import metadata; from unittest import mock; "
            "from harness import releases; "
            "assert releases.torch_at_least('1.13') and 'torch' not in sys.modules; "
            "missing = mock.patch.object(metadata, 'version', side_effect=metadata.PackageNotFoundError); "
            "missing.start(); sys.path.insert(0, sys.argv[1]); assert not releases.torch_at_least('1.13')"
        )
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "torch.py").write_text("__version__ = '1.12'")
            subprocess.run([sys.executable, "-c", ask, directory], check=True)

    def test_refused(self) -> None:
        """Text that is not a release is a UsageError."""
        with self.assertRaisesRegex(UsageError, "'new' is no release of torch"):
            torch_at_least("new")


if __name__ == "__main__":
    unittest.main()
