"""``conformance.html``, one self-contained page, and ``conformance.md``: the same matrices for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from harness.conformance.document import Conformance
from harness.conformance.grids import SYMBOLS, Box, ClassRow, Grid, bad_cells, by_class
from harness.conformance.matrix import Cell, State, count
from harness.report.text import visible

_TEMPLATES = Path(__file__).parent / "templates"
# The Markdown file lists so many cells that are not right, since CI systems cut long summaries.
MOST_LISTED = 200


def html_text(found: Conformance, tables: Sequence[Grid]) -> str:
    """The page; pure but for reading the templates."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    bad = bad_cells(found.matrix)
    anchors = _anchors(bad)
    text = environment.get_template("conformance.html").render(
        found=found,
        tables=tables,
        bad=[(f"c{number}", each, found.rerun.get(each.test, "")) for number, each in enumerate(bad)],
        surplus=[each for each in found.matrix.cells if each.state is State.SURPLUS],
        suites=_suites(found),
        classes=by_class(found.matrix.tests),
        states=[(state, SYMBOLS[state], _kind(state)) for state in reversed(State)],
        kind=_kind,
        link=lambda box: anchors.get(_anchor(box.worst), ""),
        symbol=lambda state: SYMBOLS[state],
    )
    return text.rstrip() + "\n"


def _anchors(bad: Iterable[Cell]) -> dict[tuple[str, str, State], str]:
    found: dict[tuple[str, str, State], str] = {}
    for number, each in enumerate(bad):
        found.setdefault(_anchor(each), f"c{number}")
    return found


def _anchor(each: Cell) -> tuple[str, str, State]:
    """What finds, from a box, the entry of the cell that it shows."""
    return (each.test, each.said, each.state)


def _kind(state: State) -> str:
    """The class of a state in the style sheet."""
    return state.name.lower()


def _suites(found: Conformance) -> list[tuple[str, Any, Any]]:
    """(suite, count of its tests, count of its cells)."""
    suites = sorted({each.suite for each in (*found.matrix.tests, *found.matrix.cells)})
    return [
        (
            suite,
            count(each for each in found.matrix.tests if each.suite == suite),
            count(each for each in found.matrix.cells if each.suite == suite),
        )
        for suite in suites
    ]


# -- Markdown


def markdown_text(found: Conformance, tables: Sequence[Grid]) -> str:
    """The file for a pull request or a job's summary; pure."""
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items() if version)
    parts = [f"# Conformance of {_plain(found.target)}", found.line, versions]
    legend = ", ".join(f"{SYMBOLS[state]} {state.value}" for state in reversed(State))
    for table in tables:
        parts += [f"## {table.title}", _table(("", *table.columns), (_row(*row) for row in table.rows))]
    if tables:
        parts.append(legend)
    parts += ["## Tests by class", _classes(by_class(found.matrix.tests))]
    bad = bad_cells(found.matrix)
    if bad:
        parts += ["## What is not right", "\n".join(_item(each, found) for each in bad[:MOST_LISTED])]
    if len(bad) > MOST_LISTED:
        parts.append(f"{len(bad) - MOST_LISTED} more are in conformance.html and conformance.json.")
    surplus = [f"* {_plain(str(each))}" for each in found.matrix.cells if each.state is State.SURPLUS]
    if surplus:
        parts += ["## Works, and is not declared", "\n".join(surplus)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _row(name: str, boxes: Iterable[Box | None]) -> list[str]:
    return [name, *("" if box is None else box.text for box in boxes)]


def _classes(rows: Sequence[ClassRow]) -> str:
    shown = [state for state in reversed(State) if any(state in row.states for row in rows)]
    head = ("suite", "class", *(state.value for state in shown))
    return _table(
        head, ([row.suite, row.name, *(str(row.states.get(state, "")) for state in shown)] for row in rows)
    )


def _item(each: Cell, found: Conformance) -> str:
    known = f" (known: {_plain(each.known)})" if each.known else ""
    again = found.rerun.get(each.test, "")
    lines = [f"* {SYMBOLS[each.state]} **{each.state.value}** {_plain(str(each))}{known}"]
    lines += [f"  * {_plain(each.said)}"] if each.said else []
    lines += [f"  * `{again}`"] if again else []
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_cells(head), "|" + " --- |" * len(head), *map(_cells, rows)]
    return "\n".join(lines)


def _cells(texts: Sequence[str]) -> str:
    return "| " + " | ".join(map(_plain, texts)) + " |"


def _plain(text: str) -> str:
    """Text in which Markdown finds no marks of its own."""
    shown = visible(text).replace("\n", " ")
    for mark in "\\|*_`<":
        shown = shown.replace(mark, f"\\{mark}")
    return shown
