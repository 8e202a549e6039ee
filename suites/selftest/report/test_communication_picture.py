"""Tests that what is drawn lies within the drawing, and is told as text too."""

from __future__ import annotations

import re
import unittest
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import harness.report.communication_picture
from harness.communication_call import Call
from harness.outcomes import Status
from harness.record import RankRecord
from harness.report.communication_layout import lanes
from harness.report.communication_picture import picture_html
from suites.selftest.communication.samples import call, making, receive, send, waits_for_key
from suites.selftest.report.runs import NASTY

STYLE = Path(harness.report.communication_picture.__file__).parent / "templates" / "report.css"
OVER: dict[str, Any] = {"state": "ended"}
PAIR = (0, 1)


def figure(*calls: Sequence[Call], status: Status = Status.DEADLOCKED) -> ET.Element:
    """The figure of ranks with these calls, parsed."""
    found = lanes([RankRecord(rank, status, calls=tuple(mine)) for rank, mine in enumerate(calls)])
    assert found is not None
    return ET.fromstring(picture_html(found))


def by_class(root: ET.Element, name: str) -> list[ET.Element]:
    """The elements of a class."""
    return [each for each in root.iter() if name in each.get("class", "").split()]


def text_of(element: ET.Element) -> str:
    """All text in an element."""
    return "".join(element.itertext())


def everything() -> ET.Element:
    """A picture with every kind of meeting."""
    over = [call(number=n, members=PAIR, **OVER) for n in range(1, 60)]
    rank_0 = [*over, send(1, 7, **OVER), waits_for_key(at=90.0)]
    rank_1 = [
        replace(over[0], signature=replace(over[0].signature, root=3)),
        *over[1:],
        receive(0, 8, at=80.0),
    ]
    rank_2 = [making(4, (1, 2), at=70.0), receive(None, number=3)]
    return figure(rank_0, rank_1, rank_2)


class PictureTest(unittest.TestCase):
    """``picture_html``: a figure with an SVG and a list."""

    def test_boxes_and_bands(self) -> None:
        """A call is a box in its rank's lane; a band joins those that belong together."""
        root = figure([call(members=PAIR, **OVER)], [call(members=PAIR, **OVER)])
        boxes = by_class(root, "box")
        self.assertEqual([box.get("x") for box in boxes], [boxes[0].get("x")] * 2)
        self.assertLess(int(boxes[0].get("y", "")), int(boxes[1].get("y", "")))
        self.assertEqual((len(by_class(root, "band")), len(by_class(root, "hole"))), (1, 0))
        self.assertEqual({each.get("class") for each in root.iter("g") if each.get("class")}, {"m-met"})

    def test_an_unmatched_call(self) -> None:
        """It is red, and where the other rank should be is a hole."""
        root = figure([call(members=PAIR)], [])
        self.assertEqual(len(by_class(root, "m-unmatched")), 3)  # the meeting, the box, the legend's key
        self.assertEqual([text_of(e) for e in by_class(root, "hole")], ["", "not here"])
        self.assertEqual(len(by_class(root, "waits")), 1)

    def test_arrows(self) -> None:
        """The tip of a message's arrow is at its receiver, wherever that is, and also where it never came."""
        table = [
            (([send(1, **OVER)], [receive(0, **OVER)]), 1),
            (([receive(1, **OVER)], [send(0, **OVER)]), 0),
            (([send(1)], []), 1),
            (([], [send(0)]), 0),
            (([receive(1)], []), 0),
            (([], [receive(0)]), 1),
        ]
        for calls, receiver in table:
            with self.subTest(calls):
                root = figure(*calls)
                ((_, tip_y),) = points(by_class(root, "tip")[0])[:1]
                lanes_y = [float(each.get("cy", "")) for each in root.iter("circle")]
                nearest = min((0, 1), key=lambda rank: abs(lanes_y[rank] - tip_y))
                self.assertEqual(nearest, receiver)

    def test_inside_the_drawing(self) -> None:
        """Nothing is drawn beyond the edges, where nobody could scroll to it."""
        svg = by_class(everything(), "calls")[0]
        width, height = float(svg.get("width", "")), float(svg.get("height", ""))
        for each in svg.iter():
            with self.subTest(each.tag, of=each.attrib):
                for x, y in corners(each):
                    self.assertTrue(0 <= x <= width and 0 <= y <= height, (x, y))

    def test_boxes_do_not_overlap(self) -> None:
        boxes = [corners(each) for each in by_class(everything(), "box")]
        for n, (low, high) in enumerate(boxes):
            for other_low, other_high in boxes[n + 1 :]:
                apart = high[0] <= other_low[0] or other_high[0] <= low[0] or high[1] <= other_low[1]
                self.assertTrue(apart or other_high[1] <= low[1])

    def test_told_as_text(self) -> None:
        """What is drawn has a label; the list says where each rank stands, what is wrong, and all calls."""
        root = figure([call(members=PAIR)], [], [])
        self.assertTrue(all(svg.get("aria-label") or svg.get("aria-hidden") for svg in root.iter("svg")))
        told = {ul.get("class"): [text_of(li) for li in ul] for ul in root.iter("ul")}
        self.assertEqual(told["stands"][0], "rank 0: waits in all_reduce #1 (t.py:20 in test_x)")
        self.assertEqual(len(told["stands"]), 3)
        self.assertIn("rank 1 did not come", told["wrong"][0])
        self.assertEqual(told["wrong"], told["all"])

    def test_what_is_left_out_is_counted(self) -> None:
        root = everything()
        drawn = [text_of(each) for each in by_class(root, "gap")]
        (every,) = (ul for ul in root.iter("ul") if ul.get("class") == "all")
        listed = [text_of(li) for li in every if text_of(li).endswith("left out")]
        self.assertTrue(drawn)
        self.assertEqual(len(listed), len(drawn))

    def test_foreign_text(self) -> None:
        """Text of a test stays text: in names of operations, keys, places and errors."""
        nasty = NASTY.encode("ascii", "replace").decode()  # XML has no letter for the rest
        calls = [call(nasty, members=PAIR, place=nasty, tensors=nasty), waits_for_key(nasty)]
        root = figure(calls, [send(0, tensors=nasty)])
        self.assertEqual([each for each in root.iter() if each.tag == "script"], [])

    def test_every_class_has_a_style(self) -> None:
        style = STYLE.read_text()
        root = everything()
        names = {name for each in root.iter() for name in each.get("class", "").split()}
        meant = names - {"drawing", "names", "calls", "stands", "all", "m-met"}
        self.assertLessEqual(
            {f"s-{Status.DEADLOCKED.value}", "m-unmatched", "m-differs", "hole", "gap"}, meant
        )
        for name in meant:
            with self.subTest(name):
                self.assertRegex(style, rf"\.{name}\b")


def points(polygon: ET.Element) -> list[tuple[float, float]]:
    """The corners of a polygon."""
    numbers = [float(n) for n in re.findall(r"[-\d.]+", polygon.get("points", ""))]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def corners(element: ET.Element) -> list[tuple[float, float]]:
    """The points that span an element; () for one without a place of its own."""
    if element.tag == "rect":
        x, y, w, h = (float(element.get(name, "")) for name in ("x", "y", "width", "height"))
        return [(x, y), (x + w, y + h)]
    if element.tag == "line":
        x1, y1, x2, y2 = (float(element.get(name, "")) for name in ("x1", "y1", "x2", "y2"))
        return [(x1, y1), (x2, y2)]
    if element.tag == "polygon":
        return points(element)
    if element.tag == "text":
        return [(float(element.get("x", "")), float(element.get("y", "")))]
    return []


if __name__ == "__main__":
    unittest.main()
