"""Draws how DDPOptimizer splits a model: an SVG with each bucket to scale, its cap, and its parameters.

    python tools/draw_splits.py suites.dynamo.examples:toy -o toy.svg
    python tools/draw_splits.py my_models:make --bucket-mb 10 -o mine.svg
    python tools/draw_splits.py splits.json -o splits.svg

The first two import a module from the current directory or the tree and call one of its functions, which
returns a tuple of a model and its inputs; the model is run once and compiled once. The third reads what
``harness.graphs.splits_to_json`` wrote of splits that a test has captured. Buckets are drawn in the order in
which their gradients become ready: the one nearest the model's output comes first.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.errors import UsageError
from harness.graphs.ddp_splits import Bucket, DdpSplit, splits_from_json

EXIT_CODES = """exit codes:
  0  the picture is written
  1  the model has no graph that DDPOptimizer splits
  2  a wrong argument, or a file or a model that cannot be used"""

# Sizes in pixels. In every common monospaced font a character's width is at most 0.62 of the font size.
FONT = 12
CHARACTER, LINE = FONT * 0.62, 17
MARGIN, BAR_WIDTH, BAR_HEIGHT, GAP = 16, 760, 26, 14

STYLE = f"""
text {{ font: {FONT}px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #222 }}
.paper {{ fill: #fff }}
.title {{ font-weight: bold }}
.quiet {{ fill: #666 }}
.parameter {{ fill: #9ecae1; stroke: #fff; stroke-width: 0.5 }}
.parameter.crossing {{ fill: #e6550d }}
text.crossing {{ fill: #a63603; font-weight: bold }}
.frame {{ fill: none; stroke: #bbb }}
.cap {{ stroke: #222; stroke-dasharray: 4 3 }}
"""


@dataclass
class Canvas:
    """A picture that grows downwards: ``y`` is where the next element goes."""

    root: ET.Element
    y: float = MARGIN
    width: float = 2 * MARGIN + BAR_WIDTH

    def text(self, words: str, style: str = "", x: float = MARGIN) -> None:
        """Writes a line of text, and widens the picture if the line needs it."""
        self.y += LINE
        self.add("text", style, x=x, y=self.y - LINE / 3).text = words
        self.width = max(self.width, x + len(words) * CHARACTER + MARGIN)

    def add(self, tag: str, style: str = "", **attributes: float) -> ET.Element:
        """Adds an SVG element with numeric attributes and returns it."""
        element = ET.SubElement(self.root, tag, {"class": style} if style else {})
        for name, value in attributes.items():
            element.set(name, f"{value:.3f}".rstrip("0").rstrip("."))
        return element


def draw(splits: Sequence[DdpSplit]) -> str:
    """Draws the splits below each other, all to one scale; returns the text of an SVG file."""
    canvas = Canvas(ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg"}))
    ET.SubElement(canvas.root, "style").text = STYLE
    paper = canvas.add("rect", "paper")
    canvas.text(
        "a bar is a bucket, to scale; dashed: its cap; orange: the parameter that reached it", "quiet"
    )
    canvas.y += GAP / 2
    largest = max((max(b.size, b.cap) for split in splits for b in split.buckets), default=1)
    for number, split in enumerate(splits):
        _draw_split(canvas, split, number, BAR_WIDTH / max(largest, 1))
    height = canvas.y + MARGIN
    for each in (paper, canvas.root):
        each.set("width", f"{canvas.width:.0f}")
        each.set("height", f"{height:.0f}")
    canvas.root.set("viewBox", f"0 0 {canvas.width:.0f} {height:.0f}")
    ET.indent(canvas.root)
    return ET.tostring(canvas.root, encoding="unicode") + "\n"


def _draw_split(canvas: Canvas, split: DdpSplit, number: int, scale: float) -> None:
    count = len(split.buckets)
    canvas.text(f"graph {number}: {_number(count, 'bucket')}, nearest the output first", "title")
    for index, bucket in enumerate(split.buckets):
        _draw_bucket(canvas, split, index, bucket, scale)
    for each in split.missed:
        canvas.text(f"in no bucket: {each}", "quiet")
    canvas.y += GAP


def _draw_bucket(canvas: Canvas, split: DdpSplit, index: int, bucket: Bucket, scale: float) -> None:
    canvas.y += GAP
    canvas.text(
        f"bucket {index}: {bucket.size:,} bytes, cap {bucket.cap:,}, {_number(len(bucket.ops), 'operator')}",
        "title",
    )
    for value in bucket.inputs:
        canvas.text(f"in   {value}", "quiet")
    top = canvas.y + GAP / 2
    crossing = bucket.crossing_place
    for place, (each, start) in enumerate(zip(bucket.parameters, bucket.starts, strict=True)):
        style = "parameter crossing" if place == crossing else "parameter"
        bar = canvas.add(
            "rect", style, x=MARGIN + start * scale, y=top, width=each.size * scale, height=BAR_HEIGHT
        )
        ET.SubElement(bar, "title").text = str(each)
    canvas.add("rect", "frame", x=MARGIN, y=top, width=bucket.size * scale, height=BAR_HEIGHT)
    cap = MARGIN + bucket.cap * scale
    canvas.add("line", "cap", x1=cap, y1=top - GAP / 3, x2=cap, y2=top + BAR_HEIGHT + GAP / 3)
    canvas.y = top + BAR_HEIGHT + GAP / 2
    for place, each in enumerate(bucket.parameters):
        if place == crossing:
            canvas.text(f"{each}  <- reached the cap", "crossing")
        else:
            canvas.text(str(each))
    for value in split.outputs(index):
        canvas.text(f"out  {value.name}  {value.dtype}{list(value.shape)}".replace("'", ""), "quiet")


def _number(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def splits_from(source: str, bucket_mb: float) -> Sequence[DdpSplit]:
    """The splits in a JSON file, or those of the model that ``module:function`` returns.

    Raises UsageError if the file cannot be read or the model cannot be run.
    """
    if ":" not in source or os.path.exists(source):
        try:
            return splits_from_json(Path(source).read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(
                f"{source} cannot be read ({error.strerror}); give a file or module:function"
            ) from error
    module_name, _, name = source.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        made = getattr(importlib.import_module(module_name), name)()
        if not isinstance(made, tuple) or not made:
            raise TypeError(f"it returned a {type(made).__name__}")
        model, *inputs = made
        model(*inputs)
    except Exception as error:  # the user's code may raise anything
        said = next(iter(str(error).splitlines()), "")
        raise UsageError(
            f"{source} makes no model that runs ({type(error).__name__}: {said}): it has to be a function "
            "without arguments that returns a model and its inputs in a tuple"
        ) from error
    from harness.graphs.ddp_capture import splits_of

    return splits_of(model, *inputs, bucket_cap_mb=bucket_mb)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns one of the exit codes that ``--help`` lists."""
    arguments = _parser().parse_args(argv)
    try:
        splits = splits_from(arguments.source, arguments.bucket_mb)
        if not splits:
            print(f"draw_splits: {arguments.source} has no graph that DDPOptimizer splits", file=sys.stderr)
            return 1
        _write(arguments.output, draw(splits))
    except UsageError as error:
        print(f"draw_splits: {error}", file=sys.stderr)
        return 2
    return 0


def _write(output: Path | None, text: str) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output} cannot be written ({error.strerror})") from error


def _parser() -> argparse.ArgumentParser:
    description, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="draw_splits.py",
        description=description,
        epilog=f"{details}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", help="a file that splits_to_json wrote, or module:function")
    parser.add_argument("-o", "--output", type=Path, help="where the SVG goes; standard output by default")
    parser.add_argument("--bucket-mb", type=float, default=25, help="DDP's bucket_cap_mb, default 25")
    return parser


if __name__ == "__main__":
    sys.exit(main())
