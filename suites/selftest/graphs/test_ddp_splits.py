"""Captured splits as values: their properties, their text, and their JSON form."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import unittest

from harness.errors import UsageError
from harness.graphs.ddp_splits import (
    MIB,
    Boundary,
    Bucket,
    CountedParameter,
    DdpSplit,
    splits_from_json,
    splits_to_json,
)


def parameter(name: str, size: int, ignored: bool = False) -> CountedParameter:
    """A float32 vector of ``size`` bytes."""
    return CountedParameter(name, (size // 4,), "float32", size, ignored)


def bucket(cap: int, *parameters: CountedParameter, inputs: tuple[Boundary, ...] = ()) -> Bucket:
    """A bucket of these parameters."""
    return Bucket(cap, parameters, ("linear", "relu"), inputs, "a graph")


OUTSIDE = Boundary("x", ("s77", 8), "float32")
MIDDLE = Boundary("relu", ("s77", 8), "float32", 1)
SIZE = Boundary("s77", (), "int")
RESULT = Boundary("relu_1", ("s77", 8), "float32", 0)
SPLIT = DdpSplit(
    first_cap=MIB,
    cap=25 * MIB,
    buckets=(
        bucket(MIB, parameter("b.weight", MIB), parameter("b.bias", 32), inputs=(MIDDLE, SIZE)),
        bucket(25 * MIB, parameter("a.bias", 32, ignored=True), inputs=(OUTSIDE,)),
    ),
    results=(RESULT, MIDDLE),
    missed=(parameter("c", 400),),
    graph="the whole",
)


class ValuesTest(unittest.TestCase):
    """The properties and the text of a split."""

    def test_buckets(self) -> None:
        """A split gives the names and the bytes of each bucket."""
        self.assertEqual(SPLIT.names, (("b.weight", "b.bias"), ("a.bias",)))
        self.assertEqual(SPLIT.sizes, (MIB + 32, 32))

    def test_crossing(self) -> None:
        """The crossing parameter is the one that filled the bucket, or None if it never was full."""
        self.assertEqual(SPLIT.buckets[0].crossing, parameter("b.weight", MIB))
        self.assertIsNone(SPLIT.buckets[1].crossing)
        late = bucket(100, parameter("p", 60), parameter("q", 40), parameter("r", 40))
        self.assertEqual(late.crossing, parameter("q", 40))
        self.assertIsNone(bucket(100).crossing)

    def test_boundaries(self) -> None:
        """Values that pass between buckets, and those that each bucket gives away, are listed once."""
        self.assertEqual(SPLIT.crossings, (MIDDLE,))
        self.assertEqual(SPLIT.outputs(0), (RESULT,))
        self.assertEqual(SPLIT.outputs(1), (MIDDLE,))

    def test_frozen(self) -> None:
        """A split cannot be changed, and equals a split with the same fields."""
        with self.assertRaises(dataclasses.FrozenInstanceError):
            SPLIT.cap = 1  # type: ignore[misc]  # that is the test
        self.assertEqual(SPLIT, dataclasses.replace(SPLIT))
        self.assertEqual(len({SPLIT, dataclasses.replace(SPLIT)}), 1)

    def test_text(self) -> None:
        """The text has a line for each parameter and value, and no code."""
        self.assertEqual(
            str(SPLIT).splitlines(),
            [
                "2 buckets, nearest the output first; full at 1 MiB, the others at 25 MiB",
                "  bucket 0: 1,048,608 bytes, filled by b.weight",
                "    b.weight  float32[262144]  1,048,576 bytes",
                "    b.bias  float32[8]  32 bytes",
                "    in   relu  float32[s77, 8]  from bucket 1",
                "    in   s77  int  from outside",
                "    out  relu_1  float32[s77, 8]",
                "  bucket 1: 32 bytes",
                "    a.bias  float32[8]  32 bytes, ignored by DDP",
                "    in   x  float32[s77, 8]  from outside",
                "    out  relu  float32[s77, 8]",
                "  in no bucket: c  float32[100]  400 bytes",
            ],
        )

    def test_text_of_an_extended_bucket(self) -> None:
        """The text says how many operators a full bucket took."""
        extended = dataclasses.replace(SPLIT.buckets[0], extended_by=2)
        text = str(dataclasses.replace(SPLIT, buckets=(extended,)))
        self.assertIn("1 bucket, nearest", text)
        self.assertIn("bucket 0: 1,048,608 bytes, filled by b.weight, 2 ops taken when full", text)


class JsonTest(unittest.TestCase):
    """Splits as JSON text."""

    def test_round_trip(self) -> None:
        """Splits that are written and read again are equal."""
        for splits in ((), (SPLIT,), (SPLIT, dataclasses.replace(SPLIT, cap=2 * MIB))):
            self.assertEqual(splits_from_json(splits_to_json(splits)), splits)

    def test_other_texts(self) -> None:
        """Any other text raises a UsageError."""
        unknown = json.loads(splits_to_json([SPLIT]))
        unknown[0]["colour"] = "red"
        for text in ("", "nothing", "3", '{"a": 1}', "[3]", '[{"cap": 3}]', json.dumps(unknown)):
            with self.subTest(text[:20]), self.assertRaisesRegex(UsageError, "splits_to_json"):
                splits_from_json(text)

    def test_without_torch(self) -> None:
        """Reading a split does not import torch."""
        code = (
            "import sys, harness.graphs.ddp_splits, harness.graphs.ddp_bucketing;"
            "assert not any(name.split('.')[0] == 'torch' for name in sys.modules)"
        )
        subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    unittest.main()
