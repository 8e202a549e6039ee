"""The page of the book: a table of all bugs, then each with its script; as HTML and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from suites.bugs.book import Entry

HTML, MARKDOWN = "bugs.html", "bugs.md"
_TEMPLATES = Path(__file__).parent / "templates"


def write(directory: Path, entries: Sequence[Entry]) -> list[Path]:
    """Writes both files and returns their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    texts = {name: text(name, entries) for name in (HTML, MARKDOWN)}
    for name, content in texts.items():
        (directory / name).write_text(content, encoding="utf-8")
    return [directory / name for name in texts]


def text(name: str, entries: Sequence[Entry]) -> str:
    """The text of one of the files."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=name == HTML,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    order = sorted(
        entries, key=lambda entry: (not entry.serious, not entry.is_public, entry.kind, entry.name)
    )
    kinds = Counter(entry.kind.value for entry in entries)
    return environment.get_template(name).render(
        entries=[(entry, script_of(entry)) for entry in order],
        kinds=sorted(kinds.items()),
        serious=sum(entry.serious for entry in entries),
    )


def script_of(entry: Entry) -> str:
    """The script without its docstring, whose fields are shown by themselves."""
    source = entry.path.read_text(encoding="utf-8")
    return source.split('"""', 2)[2].strip("\n")
