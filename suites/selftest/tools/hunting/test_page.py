"""Tests the page of the book, in both forms."""

from __future__ import annotations

import html
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

from harness.fuzzing.signature import Kind
from suites.bugs import book
from tools.hunting import page


class PageTest(unittest.TestCase):
    def test_every_entry_with_its_script(self) -> None:
        for name in (page.HTML, page.MARKDOWN):
            text = page.text(name, book.entries())
            for entry in book.entries():
                self.assertIn(entry.name, text)
            self.assertIn(f"{len(book.entries())} bugs", text)
            for entry in book.entries():
                shown = html.unescape(text) if name == page.HTML else text
                self.assertIn(page.script_of(entry), shown)

    def test_serious_ones_first_and_escaped(self) -> None:
        first, second = book.entries()[:2]
        plain = replace(first, kind=Kind.REFUSED, title="A <b> refusal")
        serious = replace(second, kind=Kind.WRONG, reach="public API", title="A wrong sum")
        text = page.text(page.HTML, [plain, serious])
        self.assertIn("A &lt;b&gt; refusal", text)
        self.assertLess(text.index("A wrong sum"), text.index("A &lt;b&gt; refusal"))

    def test_files(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            for path in page.write(Path(name, "new"), book.entries()):
                self.assertIn("Bugs of PyTorch", path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
