"""Tables as RST simple tables, and the place in a document where a tool writes its own."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """A table: a heading, and rows with as many cells as the heading."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def as_rst(table: Table) -> str:
    """Formats a table as an RST simple table, in which no row may have an empty first column.

    A cell that is a dash is escaped: RST would take it for a list's bullet.
    """
    lines = [tuple(r"\-" if cell == "-" else cell for cell in row) for row in (table.heading, *table.rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.heading))]
    bar = "  ".join("=" * width for width in widths)
    text = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([bar, text[0], bar, *text[1:], bar])


def placed(document: str, name: str, text: str) -> str:
    """The document with ``text`` between its lines ``.. NAME begins`` and ``.. NAME ends``.

    ValueError where it does not have both lines once, in this order.
    """
    marks = rf"(?ms)^(\.\. {re.escape(name)} begins\n).*?^(\.\. {re.escape(name)} ends\n)"
    found, count = re.subn(marks, lambda mark: f"{mark[1]}\n{text}\n\n{mark[2]}", document)
    if count != 1:
        raise ValueError(f"write one line '.. {name} begins' and below it one line '.. {name} ends'")
    return found
