"""Tests that the picture of a split is well-formed, drawn to scale, and large enough for its text."""

from __future__ import annotations

import contextlib
import io
import itertools
import tempfile
import unittest
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from harness.graphs.ddp_splits import MIB, Boundary, Bucket, CountedParameter, DdpSplit, splits_to_json
from harness.hypothesis_examples import bounded
from tools import draw_splits
from tools.draw_splits import BAR_WIDTH, CHARACTER, MARGIN, draw

SVG = "{http://www.w3.org/2000/svg}"
# Numbers in the picture have three digits after the point.
ROUNDED = 0.002


def split_of(*sizes: tuple[int, ...], cap: int = 100, name: str = "p") -> DdpSplit:
    """A split with one bucket for each tuple of parameter sizes in bytes."""
    buckets = tuple(
        Bucket(
            cap,
            tuple(CountedParameter(f"{name}.{index}.{n}", (n,), "int8", n) for n in each),
            ("linear",),
            (Boundary(f"value{index}", ("s0", 4), "float32", index + 1),),
            "",
        )
        for index, each in enumerate(sizes)
    )
    return DdpSplit(cap, cap, buckets, (), (), "")


def number(element: ET.Element, name: str) -> float:
    """The number in an attribute of an element."""
    return float(element.attrib[name])


#: Bucket sizes that DDP refuses.
UNUSABLE = ("0.1", "nan", "inf")


def layers() -> Any:
    """Returns a model that is not in a tuple, although it could be unpacked like one."""
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU())


def broken() -> Any:
    """Returns a model with inputs of a wrong shape."""
    return nn.Linear(2, 2), torch.ones(3, 3)


def no_model() -> Any:
    """Returns a tuple without a model."""
    return 3, torch.ones(2)


class Picture:
    """A picture that was drawn and parsed again."""

    def __init__(self, *splits: DdpSplit) -> None:
        self.root = ET.fromstring(draw(splits))
        self.texts = self.root.findall(f"{SVG}text")
        self.bars = [r for r in self.root.findall(f"{SVG}rect") if "parameter" in r.attrib["class"]]
        self.frames = [r for r in self.root.findall(f"{SVG}rect") if r.attrib["class"] == "frame"]
        self.caps = self.root.findall(f"{SVG}line")

    def of_frame(self, frame: ET.Element) -> list[ET.Element]:
        """The bars of a bucket's parameters, from left to right."""
        return [bar for bar in self.bars if bar.attrib["y"] == frame.attrib["y"]]


class GeometryTest(unittest.TestCase):
    """The places and sizes of the elements of a picture."""

    def check(self, *splits: DdpSplit) -> Picture:
        """Draws the splits and checks what must hold for any picture."""
        picture = Picture(*splits)
        buckets = [bucket for split in splits for bucket in split.buckets]
        scale = BAR_WIDTH / max(max(b.size, b.cap) for b in buckets)
        self.assertEqual(len(picture.frames), len(buckets))
        for bucket, frame, cap in zip(buckets, picture.frames, picture.caps, strict=True):
            self.check_bucket(bucket, picture.of_frame(frame), frame, cap, scale)
        self.check_texts(picture)
        return picture

    def check_bucket(
        self, bucket: Bucket, bars: list[ET.Element], frame: ET.Element, cap: ET.Element, scale: float
    ) -> None:
        """Checks that a bucket's parameters and cap are to scale, and its parameters side by side."""
        self.assertAlmostEqual(number(frame, "width"), bucket.size * scale, delta=ROUNDED)
        self.assertAlmostEqual(number(cap, "x1"), MARGIN + bucket.cap * scale, delta=ROUNDED)
        self.assertEqual(cap.attrib["x1"], cap.attrib["x2"])
        self.assertLess(number(cap, "y1"), number(frame, "y"))
        self.assertGreater(number(cap, "y2"), number(frame, "y") + number(frame, "height"))
        end = float(MARGIN)
        for parameter, bar in zip(bucket.parameters, bars, strict=True):
            self.assertAlmostEqual(number(bar, "x"), end, delta=len(bars) * ROUNDED)
            self.assertAlmostEqual(number(bar, "width"), parameter.size * scale, delta=ROUNDED)
            self.assertEqual(bar.findtext(f"{SVG}title"), str(parameter))
            end += number(bar, "width")
        crossing = [bar for bar in bars if "crossing" in bar.attrib["class"]]
        self.assertEqual(len(crossing), int(bucket.crossing is not None))
        for bar in crossing:
            self.assertLess(number(bar, "x"), number(cap, "x1") + ROUNDED)
            self.assertGreater(number(bar, "x") + number(bar, "width"), number(cap, "x1") - ROUNDED)

    def check_texts(self, picture: Picture) -> None:
        """Checks that all texts fit into the picture, and that none overlaps another one or a bar."""
        width, height = number(picture.root, "width"), number(picture.root, "height")
        self.assertEqual(picture.root.attrib["viewBox"], f"0 0 {width:.0f} {height:.0f}")
        for text in picture.texts:
            self.assertLessEqual(number(text, "x") + len(text.text or "") * CHARACTER, width)
            self.assertLess(number(text, "y"), height)
        ys = [number(text, "y") for text in picture.texts]
        self.assertTrue(all(b - a >= draw_splits.FONT for a, b in itertools.pairwise(ys)), ys)
        for bar in picture.frames:
            top, bottom = number(bar, "y"), number(bar, "y") + number(bar, "height")
            # A line of text reaches from its letters' height above y to their tails below it.
            covered = [y for y in ys if y - draw_splits.FONT < bottom and y + draw_splits.FONT / 3 > top]
            self.assertEqual(covered, [])

    def test_buckets(self) -> None:
        """Buckets over and under their cap, and an empty one, are drawn with all that is known of them."""
        picture = self.check(split_of((50, 60, 10), (100,), (30, 20), ()))
        words = [text.text or "" for text in picture.texts]
        self.assertIn("bucket 0: 120 bytes, cap 100, 1 operator", words)
        self.assertIn("p.0.60  int8[60]  60 bytes  <- reached the cap", words)
        self.assertEqual(sum("reached the cap" in each for each in words), 2)
        self.assertIn("in   value0  float32[s0, 4]  from bucket 1", words)

    def test_several_splits(self) -> None:
        """All splits of a picture are drawn to one scale."""
        self.check(split_of((10,)), split_of((1000, 5), (90,), cap=50))

    def test_long_names(self) -> None:
        """Long names make the picture wider."""
        picture = self.check(split_of((1,), name="layers." * 40))
        self.assertGreater(number(picture.root, "width"), 2 * MARGIN + BAR_WIDTH)

    def test_names_with_signs_of_xml(self) -> None:
        """Names with characters that are special in XML are drawn unchanged."""
        picture = self.check(split_of((1,), name='<a & "b">'))
        self.assertTrue(any('<a & "b">' in (text.text or "") for text in picture.texts))

    def test_nothing(self) -> None:
        """No splits give an empty picture."""
        self.assertEqual(Picture().bars, [])

    @bounded(60)
    @given(
        st.lists(st.lists(st.integers(0, 10**9), max_size=5).map(tuple), min_size=1, max_size=5),
        st.integers(1, 10**9),
    )
    def test_any_sizes(self, sizes: list[tuple[int, ...]], cap: int) -> None:
        """Pictures are right for buckets of any sizes."""
        self.check(split_of(*sizes, cap=cap))


class ToolTest(unittest.TestCase):
    """The tool on its command line."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.file = Path(directory.name) / "splits.json"

    def run_tool(self, *arguments: str) -> tuple[int, str, str]:
        """Runs the tool; returns the exit code and what it wrote to standard output and error.

        Warnings of torch are not the tool's: which there are depends on Python's release.
        """
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = draw_splits.main(arguments)
        return code, out.getvalue(), err.getvalue()

    def test_file(self) -> None:
        """The splits of a JSON file are drawn to standard output or into a file."""
        splits = [split_of((50, 60))]
        self.file.write_text(splits_to_json(splits), encoding="utf-8")
        self.assertEqual(self.run_tool(str(self.file)), (0, draw(splits), ""))
        picture = self.file.with_suffix(".svg")
        self.assertEqual(self.run_tool(str(self.file), "-o", str(picture)), (0, "", ""))
        self.assertEqual(picture.read_text(encoding="utf-8"), draw(splits))

    def test_model(self) -> None:
        """A model is compiled, and its splits are drawn."""
        code, text, said = self.run_tool("suites.dynamo.examples:custom", "--bucket-mb", "1")
        self.assertEqual((code, said), (0, ""))
        root = ET.fromstring(text)
        words = [each.text or "" for each in root.findall(f"{SVG}text")]
        self.assertIn(f"bucket 1: {MIB:,} bytes, cap {MIB:,}, 6 operators", words)
        self.assertIn(f"seq.2.weight  float32[512, 512]  {MIB:,} bytes  <- reached the cap", words)

    def test_nothing_to_draw(self) -> None:
        """A model without a graph that is split gives exit code 1 and no picture."""
        self.file.write_text("[]", encoding="utf-8")
        code, text, said = self.run_tool(str(self.file))
        self.assertEqual((code, text), (1, ""))
        self.assertIn("no graph that DDPOptimizer splits", said)

    def test_mistakes(self) -> None:
        """A mistake of the user gives exit code 2 and one line that says what to do."""
        self.file.write_text("{", encoding="utf-8")
        for arguments, words in (
            (("no/such/file.json",), "give a file or module:function"),
            ((str(self.file),), "splits_to_json"),
            (("suites.dynamo.examples:nobody",), "returns a model and its inputs"),
            (("suites.no_such_module:toy",), "returns a model and its inputs"),
            ((f"{__name__}:layers",), "it returned a Sequential"),
            ((f"{__name__}:broken",), "RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
            ((f"{__name__}:no_model",), "'int' object is not callable"),
            *((("suites.dynamo.examples:custom", "--bucket-mb", mb), "no less than 1") for mb in UNUSABLE),
        ):
            with self.subTest(arguments):
                code, text, said = self.run_tool(*arguments)
                self.assertEqual((code, text, said.count("\n")), (2, "", 1), said)
                self.assertIn(words, said)

    def test_unwritable(self) -> None:
        """An output file that cannot be written is a mistake of the user."""
        self.file.write_text(splits_to_json([split_of((1,))]), encoding="utf-8")
        code, _, said = self.run_tool(str(self.file), "-o", str(self.file / "below.svg"))
        self.assertEqual(code, 2)
        self.assertIn("cannot be written", said)


if __name__ == "__main__":
    unittest.main()
