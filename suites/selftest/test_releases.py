"""Tests the comparison of torch releases."""

from __future__ import annotations

import unittest
from unittest import mock

import torch

from harness.errors import UsageError
from harness.releases import torch_at_least


class ReleaseTest(unittest.TestCase):
    """The function ``torch_at_least``, on versions of every form."""

    def test_releases(self) -> None:
        """Versions compare by their numbers, and a pre-release counts as its release."""
        for version, yes, no in (
            ("2.13.0+cpu", ("2.9", "2.13"), ("2.14", "3.0")),
            ("2.14.0a0+git1234", ("2.14",), ("2.15",)),
        ):
            with mock.patch.object(torch, "__version__", version):
                self.assertEqual([torch_at_least(release) for release in yes], [True] * len(yes))
                self.assertEqual([torch_at_least(release) for release in no], [False] * len(no))

    def test_refused(self) -> None:
        """Text that is not a release is a UsageError."""
        with self.assertRaisesRegex(UsageError, "'new' is no release of torch"):
            torch_at_least("new")


if __name__ == "__main__":
    unittest.main()
