"""Tests the directory in which a test's ranks write the values of their calls."""

from __future__ import annotations

import os
import unittest

from harness.communication.analysis.checks import Check
from harness.communication.tensor_values import values
from harness.communication.tensor_values.values import ValueFile
from harness.ranks.value_directory import ValueDirectory
from suites.selftest.communication.value_samples import tensor
from suites.selftest.communication.value_samples import values as values_of


class ValueDirectoryTest(unittest.TestCase):
    """Its life, and what is found in it."""

    def test_findings(self) -> None:
        """What is wrong with the values of all ranks; afterwards the directory is gone."""
        directory = ValueDirectory("values")
        path = directory.path
        for rank, got in ((0, 3.0), (1, 4.0)):
            call = values_of("all_reduce", [tensor([rank + 1.0])], None, members=(0, 1), reduce_op="SUM")
            file = ValueFile(path, rank)
            file.append(values.begun(0, call))
            file.append(values.ended(0, [tensor([got])]))
        (found,) = directory.findings()
        self.assertEqual((found.check, found.ranks), (Check.VALUES, (1,)))
        self.assertFalse(os.path.exists(path))
        self.assertEqual(directory.findings(), ())

    def test_other_levels(self) -> None:
        """Under other levels there is none."""
        for level in (None, "off", "warn", "error"):
            directory = ValueDirectory(level)
            self.assertEqual((directory.path, directory.findings()), ("", ()))
            directory.close()

    def test_close(self) -> None:
        """Where nobody asks for findings, it is removed all the same."""
        directory = ValueDirectory("values")
        path = directory.path
        self.assertTrue(os.path.isdir(path))
        directory.close()
        directory.close()
        self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    unittest.main()
