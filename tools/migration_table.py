"""Writes docs/migration.rst from the tables of harness/migrate/names.py and reasons.py.

python -m tools.migration_table
"""

from __future__ import annotations

import textwrap
from itertools import groupby
from pathlib import Path

from harness.migrate import names

PAGE = Path(__file__).resolve().parents[1] / "docs" / "migration.rst"

HEAD = """\
Names of ``torch.testing._internal``
====================================

Which names of torch's private test modules ``harness`` has, and why it lacks others. ``torch-harness
migrate PATH`` rewrites the imports of a file by these tables, and lists what it leaves. ``python -m
tools.migration_table`` writes this page from ``harness/migrate/names.py`` and ``reasons.py``.
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_module(module) for module in names.SAME)


def _module(module: str) -> str:
    title = f"``{module}``"
    rows = [row for row in names.rows() if row.module == module]
    same = [row.name for row in rows if row.counterpart]
    text = f"\n{title}\n{'-' * len(title)}\n\n"
    text += _wrapped(f"The same names: {_listed(same)}.") if same else "No name.\n"
    without = [row for row in rows if not row.counterpart]
    for reason, group in groupby(without, key=lambda row: row.reason):
        text += "\n" + _wrapped(f"* {_listed([row.name for row in group])}: {reason}.", hanging=2)
    return text


def _listed(each: list[str]) -> str:
    return ", ".join(f"``{name}``" for name in sorted(each))


def _wrapped(text: str, hanging: int = 0) -> str:
    indent = " " * hanging
    lines = textwrap.wrap(text, 118, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
