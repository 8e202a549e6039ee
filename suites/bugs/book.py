"""``Entry``: one bug of the book, read from its script's docstring; and what the book knows of a failure.

An entry is a file of ``suites/bugs/entries``: a script in plain torch, for an issue to its maintainers.
Its docstring has the title, and below it fields, each a name, a colon and a text of one or more lines::

    kind:      silently wrong | process dies | hangs | internal assertion | refused
    expected:  what should happen, and why
    happens:   what does
    fails:     a pattern that the script's failure matches, written ``kind: error``
    since:     the first release of torch in which it is seen (what is older was not tried, or is right)
    before:    the first release that is right again, once there is one
    reach:     public API, or the internal entry by which alone it is seen
    fuzzer:    what found it
    upstream:  the issue at PyTorch, or "none found"
    who:       who would meet it
    seen:      a pattern by which a hunt or a property test knows its failure again; there may be several

``seen`` is searched in the text of a ``Signature``: ``fuzzer: kind: error | structure``. It asks for what
the cause needs: the kind and subject of the failure, the statements and arguments without which there is
none, the options. It does not ask for what other programs with that cause have otherwise: the order of
operands, the name of a node, a further output (numbers are ``#`` in errors). Where failures of two causes
read alike, the signature has to say what tells them apart, as that of view programs says which backwards
eager lacks.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.fuzzing.signature import Kind
from harness.releases import torch_between

ENTRIES = Path(__file__).parent / "entries"
_FIELD = re.compile(r"^(\w+):\s+(.*)$")
_NEEDED = ("kind", "expected", "happens", "fails", "since", "reach", "fuzzer", "upstream", "who")
_OPTIONAL = ("before", "seen")
PUBLIC = "public API"


@dataclass(frozen=True, slots=True)
class Entry:
    """A bug of the book; see the module for the fields. ``name`` is that of the script's file."""

    name: str
    title: str
    kind: Kind
    expected: str
    happens: str
    fails: str
    since: str
    before: str | None
    reach: str
    fuzzer: str
    upstream: str
    who: str
    seen: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The script."""
        return ENTRIES / f"{self.name}.py"

    @property
    def is_public(self) -> bool:
        """Whether public API shows it."""
        return self.reach.startswith(PUBLIC)

    @property
    def serious(self) -> bool:
        """Whether it is silently wrong, or ends or stops the process, through public API."""
        return self.is_public and self.kind in (Kind.WRONG, Kind.DIES, Kind.HANGS)

    @property
    def releases(self) -> str:
        """The releases in words."""
        return f"{self.since} and later" if self.before is None else f"{self.since} to before {self.before}"

    def is_here(self) -> bool:
        """Whether the release of torch that runs has the bug."""
        return torch_between(self.since, self.before)

    def knows(self, signature: str) -> bool:
        """Whether this is the bug of a signature's text."""
        return any(re.search(pattern, signature) for pattern in self.seen)


def read(name: str, text: str) -> Entry:
    """The entry that a script's text has; UsageError where its docstring is not one."""
    doc = ast.get_docstring(ast.parse(text))
    if not doc:
        raise UsageError(f"{name}: the script has no docstring")
    title, _, rest = doc.partition("\n\n")
    fields: dict[str, list[str]] = {}
    last = ""
    for line in filter(None, rest.splitlines()):
        found = _FIELD.match(line)
        if found:
            last = found[1]
            fields.setdefault(last, []).append(found[2])
        elif last and line[0].isspace():
            fields[last][-1] += f" {line.strip()}"
        else:
            raise UsageError(f"{name}: {line!r} is neither a field nor the rest of one")
    lacking = [field for field in _NEEDED if field not in fields]
    unknown = [field for field in fields if field not in (*_NEEDED, *_OPTIONAL)]
    double = [field for field, texts in fields.items() if len(texts) > 1 and field != "seen"]
    for what, names in (("lacks", lacking), ("has unknown", unknown), ("has twice", double)):
        if names:
            raise UsageError(f"{name} {what} {', '.join(names)}")
    one = {field: texts[0] for field, texts in fields.items()}
    kinds = [kind.value for kind in Kind]
    if one["kind"] not in kinds:
        raise UsageError(f"{name}: kind {one['kind']!r}; there are {', '.join(kinds)}")
    given = {field: one[field] for field in _NEEDED if field != "kind"}
    seen = tuple(fields.get("seen", ()))
    return Entry(
        name=name,
        title=" ".join(title.split()),
        kind=Kind(one["kind"]),
        before=one.get("before"),
        seen=seen,
        **given,
    )


@functools.cache
def entries() -> tuple[Entry, ...]:
    """The whole book, by name."""
    paths = sorted(ENTRIES.glob("*.py"))
    return tuple(read(path.stem, path.read_text(encoding="utf-8")) for path in paths)


def known(signature: str, book: Iterable[Entry] | None = None) -> Entry | None:
    """The entry that knows a failure by its signature's text, or None."""
    return next((entry for entry in (entries() if book is None else book) if entry.knows(signature)), None)
