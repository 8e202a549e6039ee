"""Tests that docstrings exist and say something, and that no text cites a document that is not here."""

from __future__ import annotations

import ast
import re
import unittest
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
# A first sentence of fewer words names a topic at best, and leaves it to the code to say something about it.
FEWEST_WORDS = 3
# Shorter sentences that are complete all the same: the whole contract of a stand-in in a self-test.
COMPLETE = {"Does nothing.", "Passes.", "Fails.", "Hangs.", "Always raises.", "Never runs."}
# Texts like a document's name that are none: examples of files that a run writes, and the two forms of a
# table that a test compares.
NO_DOCUMENTS = {"summary.md", "conformance.md", "bugs.md", "tables.rst", "arguments.rst"}
# A section of an unnamed document; one that everybody can look up is cited as in STANDARD.
FOREIGN = re.compile(r"\bDESIGN\b|§|\b[Ss]ections? \d+")
STANDARD = re.compile(r"XML 1\.0 \(section [\d.]+\)")
DOCUMENT = re.compile(r"[A-Za-z_][\w./-]*\.(?:md|rst)\b")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Definition:
    """A module, class or function; ``name`` is its dotted name in the module, empty for the module itself.

    ``public`` is whether no part of the name begins with an underscore and no part is a function; ``bases``
    are the names of a class's bases.
    """

    path: str
    name: str
    line: int
    doc: str | None
    public: bool
    bases: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The place in words, for a message."""
        return f"{self.path}:{self.line} {self.name}".rstrip()


def definitions(path: str, source: str) -> Iterator[Definition]:
    """Yields a module and the classes and functions in it, without the overloads that type checkers read."""
    tree = ast.parse(source, path)
    yield Definition(path, "", 1, ast.get_docstring(tree), public=True)
    yield from _below(tree, path, "", public=True)


def _below(node: ast.AST, path: str, prefix: str, *, public: bool) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | FunctionNode):
            if any(ast.unparse(each).endswith("overload") for each in child.decorator_list):
                continue
            name, shown = f"{prefix}{child.name}", public and not child.name.startswith("_")
            bases = child.bases if isinstance(child, ast.ClassDef) else ()
            named = tuple(ast.unparse(base).rpartition(".")[2] for base in bases)
            yield Definition(path, name, child.lineno, ast.get_docstring(child), shown, named)
            inner = shown and isinstance(child, ast.ClassDef)
            yield from _below(child, path, f"{name}.", public=inner)
        else:
            yield from _below(child, path, prefix, public=public)


def first_sentence(doc: str) -> str:
    """Returns the first sentence of a docstring, in one line."""
    paragraph = " ".join(doc.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s", paragraph, maxsplit=1)[0]


def inherited(method: Definition, everything: list[Definition]) -> bool:
    """Whether a class that this method's class derives from has a docstring for the method."""
    owner, _, name = method.name.rpartition(".")
    bases = {each.name: each.bases for each in everything if each.bases or "." not in each.name}
    documented = {each.name for each in everything if each.doc is not None}
    todo, seen = [*bases.get(owner, ())], set()
    while todo:
        base = todo.pop()
        if f"{base}.{name}" in documented:
            return True
        if base not in seen:
            seen.add(base)
            todo += bases.get(base, ())
    return False


def files(*places: str) -> list[Path]:
    """Returns the Python files below some folders of the tree."""
    return sorted(path for place in places for path in (TREE / place).rglob("*.py"))


def everything_in(*places: str) -> list[Definition]:
    """Returns all definitions in the files below some folders of the tree."""
    found: list[Definition] = []
    for path in files(*places):
        found += definitions(str(path.relative_to(TREE)), path.read_text(encoding="utf-8"))
    return found


def foreign(text: str) -> list[str]:
    """Returns the citations in a text of documents that the tree does not have."""
    documents = [
        name
        for name in DOCUMENT.findall(text)
        if name not in NO_DOCUMENTS and not any((TREE / at / name).exists() for at in ("", "docs"))
    ]
    return documents + FOREIGN.findall(STANDARD.sub("", text))


class RulesTest(unittest.TestCase):
    """The rules by which the checks below go."""

    SOURCE = '''
"""Module."""
class Shown(Base, other.Second):
    """Class."""
    def method(self):
        def inner(): pass
    def _own(self): pass
class _Hidden:
    def method(self): pass
if True:
    @typing.overload
    def function(a): ...
    def function(a): pass
'''

    def test_definitions(self) -> None:
        """What is private, or defined in a function, is not public; overloads do not count."""
        found = {each.name: each for each in definitions("m.py", self.SOURCE)}
        public = {name for name, each in found.items() if each.public}
        self.assertEqual(public, {"", "Shown", "Shown.method", "function"})
        self.assertLessEqual({"Shown._own", "_Hidden", "_Hidden.method", "Shown.method.inner"}, found.keys())
        self.assertEqual(found["Shown"].bases, ("Base", "Second"))
        self.assertEqual([found[name].doc for name in ("", "Shown", "function")], ["Module.", "Class.", None])
        self.assertEqual(found["function"].line, 13)

    def test_inherited(self) -> None:
        """A docstring is inherited from any class above, also by way of one that has none."""
        source = '''
class Top:
    def told(self):
        """Says what it does."""
    def untold(self): pass
class Between(Top): pass
class Bottom(Between):
    def told(self): pass
    def untold(self): pass
'''
        found = {each.name: each for each in definitions("m.py", source)}
        verdicts = [inherited(found[f"Bottom.{name}"], [*found.values()]) for name in ("told", "untold")]
        self.assertEqual(verdicts, [True, False])

    def test_first_sentence(self) -> None:
        """A sentence ends with a full stop before a space, or with the paragraph."""
        for doc, sentence in (
            ("Counts.", "Counts."),
            ("\n  Counts ranks,\n  as e.g.x does. And more.\n", "Counts ranks, as e.g.x does."),
            ("No full stop\n\nMore.", "No full stop"),
        ):
            with self.subTest(doc):
                self.assertEqual(first_sentence(doc), sentence)

    def test_foreign(self) -> None:
        """Documents and sections that a reader of this tree cannot look up are found."""
        for text, wanted in (
            ("see README.rst", []),
            ("see spec/outcomes.md", ["spec/outcomes.md"]),
            ("in the order of DESIGN 5", ["DESIGN"]),
            ("see DESIGN.md", ["DESIGN.md", "DESIGN"]),
            ("as Section 5 has it", ["Section 5"]),
            ("as XML 1.0 (section 2.2) has it", []),
        ):
            with self.subTest(text):
                self.assertEqual(foreign(text), wanted)


class DocstringsTest(unittest.TestCase):
    """The docstrings of harness/, tools/ and suites/selftest."""

    def check(self, wrong: list[str], message: str) -> None:
        """Fails with a line for each of the given places."""
        if wrong:
            self.fail("\n".join((f"{len(wrong)} {message}:", *wrong)))

    def test_public_names_have_one(self) -> None:
        """Every public module, class and function of harness/ has a docstring, or inherits one."""
        everything = everything_in("harness")
        self.assertGreater(len(everything), 1000)
        bare = [each for each in everything if each.public and each.doc is None]
        self.check([each.place for each in bare if not inherited(each, everything)], "without docstring")

    def test_first_sentences_say_something(self) -> None:
        """The first sentence of every docstring has enough words to be a statement."""
        short = [
            f"{each.place}: {sentence}"
            for each in everything_in("harness", "tools", "suites/selftest")
            if each.doc is not None
            and len((sentence := first_sentence(each.doc)).split()) < FEWEST_WORDS
            and sentence not in COMPLETE
        ]
        self.check(short, f"docstrings begin with fewer than {FEWEST_WORDS} words")

    def test_nothing_foreign_is_cited(self) -> None:
        """No Python file, README or page cites a document that is not in the repository."""
        texts = [*files("harness", "tools", "suites"), TREE / "README.rst", *(TREE / "docs").glob("*.rst")]
        texts.remove(Path(__file__).resolve())  # which has examples of such citations
        cited = [
            f"{path.relative_to(TREE)}:{number}: {citation}"
            for path in texts
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            for citation in foreign(line)
        ]
        self.check(cited, "citations of what is not in the repository")


if __name__ == "__main__":
    unittest.main()
