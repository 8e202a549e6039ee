"""``picture_html``: draws the lanes of a failed test as SVG, with the same as a list. Pure.

The classes are those of ``templates/report.css``, which has the colours of light and dark.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable
from html import escape

from harness.communication_call import Call, Kind
from harness.outcomes import ranks_text
from harness.report.communication_layout import DIFFERS, OPEN, UNMATCHED, Cell, Lane, Lanes, Meeting
from harness.report.text import visible

# In units of SVG, which are pixels. Letters are those of fonts of 11 and 10 pixels in which all are equally
# wide.
_LETTER, _SMALL_LETTER = 6.7, 6.1
_LANE, _BOX, _TOP = 48, 32, 8
_NARROWEST, _GUTTER, _GAP = 60, 16, 44
_MOST_LETTERS = 24
_STANDS_LETTERS, _STANDS_LINES = 46, 2
_FEWEST_NAME_LETTERS, _MOST_NAME_LETTERS = 12, 26


def picture_html(lanes: Lanes) -> str:
    """A figure: the names of the ranks, the calls, which scroll beside them, a legend and a list."""
    drawing = _Drawing(lanes)
    what = f"Communication of {ranks_text(rank for lane in lanes.lanes for rank in lane.ranks)}"
    told = _items((_lane_text(lane) for lane in lanes.lanes), "stands")
    wrong = [m for m in lanes.meetings if m.state != "met"]
    listed = _items((m.text for m in wrong), "wrong") if wrong else ""
    every = _items(_all_texts(lanes), "all")
    return (
        f'<figure class="lanes" aria-label="{_text(what)}">'
        f'<div class="drawing">{drawing.names()}'
        f'<div class="strip" role="region" tabindex="0" aria-label="{_text(what)}, drawn; scrolls sideways">'
        f"{drawing.calls(what)}</div></div>"
        f"{_legend(lanes)}"
        f"<details><summary>the same as a list</summary>{told}{listed}"
        f"<p>From left to right:</p>{every}</details></figure>"
    )


def _items(texts: Iterable[str], kind: str) -> str:
    return f'<ul class="{kind}">{"".join(f"<li>{_text(text)}</li>" for text in texts)}</ul>'


def _all_texts(lanes: Lanes) -> list[str]:
    found: list[str] = []
    gaps = dict(lanes.gaps)
    for meeting in lanes.meetings:
        if meeting.column in gaps:
            found.append(f"{gaps.pop(meeting.column)} left out")
        found.append(meeting.text)
    return found


def _lane_text(lane: Lane) -> str:
    earlier = f", after {lane.earlier} calls that are not shown" if lane.earlier else ""
    return f"{ranks_text(lane.ranks)}: {lane.stands}{earlier}"


_LEGEND = {
    "met": "all came",
    OPEN: "under way",
    UNMATCHED: "somebody did not come",
    DIFFERS: "differs from the others",
}


def _legend(lanes: Lanes) -> str:
    used = {cell.state for meeting in lanes.meetings for cell in meeting.cells}
    parts = [f'<span class="key m-{state}">{said}</span>' for state, said in _LEGEND.items() if state in used]
    if any(cell.call.ended_s is None for meeting in lanes.meetings for cell in meeting.cells):
        parts.append('<span class="key pending">dashed: has not ended</span>')
    return f"<figcaption>{''.join(parts)}</figcaption>"


class _Drawing:
    """The positions of one picture in pixels, and what is drawn there."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._row = {lane.rank: number for number, lane in enumerate(lanes.lanes)}
        longest = max(len(ranks_text(lane.ranks)) for lane in lanes.lanes)
        self._names_letters = min(max(longest, _FEWEST_NAME_LETTERS), _MOST_NAME_LETTERS)
        self._widths = [_NARROWEST] * lanes.columns
        for cell in self._cells():
            first, second = (len(_cut(line)) for line in _lines(cell.call))
            needed = round(max(first * _LETTER, second * _SMALL_LETTER)) + 12
            self._widths[cell.column] = max(self._widths[cell.column], needed)
        self._left = []
        at = _GUTTER
        for column, width in enumerate(self._widths):
            at += _GAP if column in lanes.gaps else 0
            self._left.append(at)
            at += width + _GUTTER
        self._end = at
        self._height = _TOP + _LANE * len(lanes.lanes)

    def _cells(self) -> list[Cell]:
        return [cell for meeting in self._lanes.meetings for cell in meeting.cells]

    def names(self) -> str:
        """The ranks at the left, which stay where they are."""
        parts = []
        for lane in self._lanes.lanes:
            y = self._middle(lane.rank)
            status = lane.status.value.replace(" ", "-")
            earlier = f"+ {lane.earlier} earlier" if lane.earlier else ""
            parts.append(
                f"<g><title>{_text(_lane_text(lane))}</title>"
                f'<circle class="s-{status}" cx="7" cy="{y}" r="5"/>'
                f'<text class="name" x="18" y="{y + (0 if earlier else 4)}">'
                f"{_text(_cut(ranks_text(lane.ranks), self._names_letters))}</text>"
                + (f'<text class="small" x="18" y="{y + 13}">{earlier}</text>' if earlier else "")
                + "</g>"
            )
        size = f'width="{round(18 + self._names_letters * _LETTER) + 8}" height="{self._height}"'
        return f'<svg class="names" {size} aria-hidden="true">{"".join(parts)}</svg>'

    def calls(self, label: str) -> str:
        """The lanes with all that is in them."""
        stands = max((len(line) for lane in self._lanes.lanes for line in _stands(lane)), default=0)
        width = round(self._end + 8 + stands * _LETTER + 12)
        parts = [self._line(lane) for lane in self._lanes.lanes]
        parts += [self._gap(column, count) for column, count in self._lanes.gaps.items()]
        # What is wrong lies above the rest.
        for meeting in sorted(self._lanes.meetings, key=lambda m: m.state != "met"):
            parts.append(self._meeting(meeting))
        size = f'width="{width}" height="{self._height}" viewBox="0 0 {width} {self._height}"'
        return f'<svg class="calls" {size} role="img" aria-label="{_text(label)}">{"".join(parts)}</svg>'

    def _middle(self, rank: int) -> int:
        return _TOP + _LANE * self._row[rank] + _LANE // 2

    def _centre(self, column: int) -> int:
        return self._left[column] + self._widths[column] // 2

    def _line(self, lane: Lane) -> str:
        """A rank's line through its calls to where it stands; dotted behind the end of one that is over."""
        y = self._middle(lane.rank)
        stop = self._left[lane.last] + self._widths[lane.last] + 6 if lane.last >= 0 else 4
        until = stop if lane.over else self._end
        parts = [f'<line class="lane" x1="0" y1="{y}" x2="{until}" y2="{y}"/>']
        if lane.over:
            parts.append(f'<line class="lane over" x1="{stop}" y1="{y}" x2="{self._end}" y2="{y}"/>')
            parts.append(f'<line class="stop" x1="{stop}" y1="{y - 9}" x2="{stop}" y2="{y + 9}"/>')
        lines = _stands(lane)
        status = lane.status.value.replace(" ", "-")
        top = y + 4 - 7 * (len(lines) - 1)
        texts = "".join(
            f'<text class="stands s-{status}" x="{self._end + 8}" y="{top + 14 * n}">{_text(line)}</text>'
            for n, line in enumerate(lines)
        )
        return f"<g><title>{_text(_lane_text(lane))}</title>{''.join(parts)}{texts}</g>"

    def _gap(self, column: int, count: int) -> str:
        x = self._left[column] - _GUTTER - _GAP // 2 + 4
        return (
            f'<g class="gap"><title>{count} left out here</title>'
            f'<rect x="{x - 15}" y="{_TOP}" width="30" height="{self._height - _TOP}"/>'
            f'<text x="{x}" y="{self._height // 2 + 4}">+{count}</text></g>'
        )

    def _meeting(self, meeting: Meeting) -> str:
        places = [(cell.rank, cell.column) for cell in meeting.cells]
        places += [(rank, meeting.column) for rank in meeting.missing]
        places.sort(key=lambda place: self._row[place[0]])
        alone = meeting.cells[0].call
        message = meeting.message or alone.kind in (Kind.SEND, Kind.RECEIVE)
        ties = self._arrow(meeting, places) if message else self._bands(places)
        holes = "".join(self._hole(rank, meeting.column, alone) for rank in meeting.missing)
        boxes = "".join(self._box(cell) for cell in meeting.cells)
        return f'<g class="m-{meeting.state}"><title>{_text(meeting.text)}</title>{ties}{holes}{boxes}</g>'

    def _bands(self, places: list[tuple[int, int]]) -> str:
        """The shade between the boxes of one collective."""
        bands = []
        for (upper, first), (lower, second) in itertools.pairwise(places):
            top, bottom = self._middle(upper) + _BOX // 2 - 3, self._middle(lower) - _BOX // 2 + 3
            x1, w1, x2, w2 = (
                self._left[first],
                self._widths[first],
                self._left[second],
                self._widths[second],
            )
            points = f"{x1 + 4},{top} {x1 + w1 - 4},{top} {x2 + w2 - 4},{bottom} {x2 + 4},{bottom}"
            bands.append(f'<polygon class="band" points="{points}"/>')
        return "".join(bands)

    def _arrow(self, meeting: Meeting, places: list[tuple[int, int]]) -> str:
        if len(places) < 2:
            return ""
        (one, other), first = places, meeting.cells[0]
        sender = next((c.rank for c in meeting.cells if c.call.kind is Kind.SEND), None)
        forwards = one[0] == sender if sender is not None else one[0] != first.rank
        start, end = (one, other) if forwards else (other, one)
        down = 1 if self._row[end[0]] > self._row[start[0]] else -1
        x1, y1 = self._centre(start[1]), self._middle(start[0]) + down * _BOX // 2
        x2, y2 = self._centre(end[1]), self._middle(end[0]) - down * _BOX // 2
        tip = f"{x2},{y2} {x2 - 5},{y2 - 9 * down} {x2 + 5},{y2 - 9 * down}"
        return (
            f'<line class="arrow" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2 - 7 * down}"/>'
            f'<polygon class="tip" points="{tip}"/>'
        )

    def _hole(self, rank: int, column: int, call: Call) -> str:
        x, y, width = self._left[column], self._middle(rank) - _BOX // 2, self._widths[column]
        said = {Kind.SEND: "no receive", Kind.RECEIVE: "no send"}.get(call.kind, "not here")
        return (
            f'<rect class="hole" x="{x}" y="{y}" width="{width}" height="{_BOX}" rx="4"/>'
            f'<text class="hole" x="{x + width // 2}" y="{y + 20}">{said}</text>'
        )

    def _box(self, cell: Cell) -> str:
        x, y = self._left[cell.column], self._middle(cell.rank) - _BOX // 2
        width = self._widths[cell.column]
        first, second = (_text(_cut(line)) for line in _lines(cell.call))
        waits = " waits" if cell.call.ended_s is None else ""
        middle = x + width // 2
        return (
            f'<g class="m-{cell.state}{waits}"><title>rank {cell.rank}: {_text(_title(cell.call))}</title>'
            f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{_BOX}" rx="4"/>'
            f'<text class="what" x="{middle}" y="{y + (14 if second else 20)}">{first}</text>'
            + (f'<text class="small" x="{middle}" y="{y + 26}">{second}</text>' if second else "")
            + "</g>"
        )


def _lines(call: Call) -> tuple[str, str]:
    """What stands in a call's box: the call, and what it was given."""
    s = call.signature
    if call.kind is Kind.SEND:
        return f"send \u2192 {s.peer}" + (f" tag {s.tag}" if s.tag else ""), s.tensors
    if call.kind is Kind.RECEIVE:
        source = "any" if s.peer is None else s.peer
        return f"recv \u2190 {source}" + (f" tag {s.tag}" if s.tag else ""), s.tensors
    if call.kind is Kind.MAKING:
        return s.operation, "" if s.default else _members(call)
    if call.kind is Kind.STORE:
        return s.operation, repr(s.key)
    if call.kind in (Kind.ANSWER, Kind.WORKERS):
        return s.operation, s.key
    given = [
        s.reduce_op if s.reduce_op != "SUM" else "",
        "" if s.root is None else f"root {s.root}",
        s.tensors,
    ]
    group = "" if s.default or call.kind is Kind.LAYOUT else _members(call)
    return call.name, " ".join(filter(None, (group, *given)))


def _members(call: Call) -> str:
    return "{" + ",".join(map(str, call.signature.members)) + "}" if call.signature.members else ""


def _title(call: Call) -> str:
    s = call.signature
    given = ", ".join(filter(None, (s.reduce_op, "" if s.root is None else f"root {s.root}", s.tensors)))
    took = "has not ended" if call.ended_s is None else f"{(call.ended_s - call.started_s) * 1e3:.3f} ms"
    raised = ", raised" if call.raised else ""
    return f"{call}{call.at}" + (f", {given}" if given else "") + f", {took}{raised}"


def _stands(lane: Lane) -> list[str]:
    """Where a rank stands in lines, of which the place in brackets is one."""
    said, bracket, place = visible(lane.stands).replace("\n", " ").partition(" (")
    lines = textwrap.wrap(said, _STANDS_LETTERS) or [""]
    lines += textwrap.wrap(f"({place}", _STANDS_LETTERS) if bracket else []
    if len(lines) > _STANDS_LINES:
        lines = lines[:_STANDS_LINES]
        lines[-1] = _cut(f"{lines[-1]} \u2026", _STANDS_LETTERS)
    return lines


def _cut(text: str, most: int = _MOST_LETTERS) -> str:
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def _text(text: str) -> str:
    return escape(visible(text))
