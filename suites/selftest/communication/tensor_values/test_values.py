"""Tests the records of values: what is written is read, and what is cut off is left out."""

from __future__ import annotations

import tempfile
import unittest
from dataclasses import replace

from harness.communication.tensor_values import values
from harness.communication.tensor_values.values import CallValues, ValueFile, read, read_directory
from suites.selftest.communication.samples import call
from suites.selftest.communication.value_samples import tensor

GIVEN, GOT = tensor([[1, 2]]), tensor([3.0, 4.0], "float64")
CALL = CallValues(call("all_gather_object"), "all_gather", (GIVEN, tensor([], "int64")), factor=2.0)


class ReadTest(unittest.TestCase):
    """What is read of records."""

    def test_round_trip(self) -> None:
        """A call's begin and its end, in whatever order with those of other calls."""
        later = replace(CALL, operation="recv", factor=None)
        records = values.begun(0, CALL) + values.begun(1, later)
        self.assertEqual(read(records), (CALL, later))
        ends = values.ended(1, [GOT], source=3) + values.ended(0, [GOT, GIVEN])
        expected = (replace(CALL, outputs=(GOT, GIVEN)), replace(later, outputs=(GOT,), source=3))
        self.assertEqual(read(records + ends), expected)

    def test_without_a_result(self) -> None:
        """A call that raised, and one whose values mean nothing."""
        begun = values.begun(0, CALL)
        self.assertEqual(read(begun + values.ended(0, raised=True)), (replace(CALL, raised=True),))
        (found,) = read(begun + values.ended(0, [GOT], why_not=values.WRITTEN))
        self.assertEqual(found.why_not, values.WRITTEN)

    def test_cut_off(self) -> None:
        """Of a rank that died while it wrote, all whole records are there."""
        begun, ended = values.begun(0, CALL), values.ended(0, [GOT])
        for length in range(len(ended)):
            self.assertEqual(read(begun + ended[:length]), (CALL,), length)
        for length in range(len(begun)):
            self.assertEqual(read(begun[:length]), (), length)


class DirectoryTest(unittest.TestCase):
    """The files of a test's ranks."""

    def test_by_rank(self) -> None:
        """Each rank appends to a file of its own; one that made no call has none."""
        with tempfile.TemporaryDirectory() as directory:
            for rank in (10, 2):
                file = ValueFile(directory, rank)
                file.append(values.begun(0, CALL))
                file.append(values.ended(0, [GOT]))
            found = read_directory(directory)
        whole = replace(CALL, outputs=(GOT,))
        self.assertEqual(found, {2: (whole,), 10: (whole,)})
        self.assertEqual(list(found), [2, 10])


if __name__ == "__main__":
    unittest.main()
