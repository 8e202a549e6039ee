"""Tests the page and the Markdown file about a report; how the page looks is for eyes."""

from __future__ import annotations

import re
import unittest
from html.parser import HTMLParser

from harness.conformance.grids import grids
from harness.conformance.matrix import State
from harness.conformance.page import MOST_LISTED, html_text, markdown_text
from suites.selftest.conformance.samples import TEST, cell, everything, report

_VOID = ("meta", "link", "br")


class Parsed(HTMLParser):
    """The elements of a page: ids, links, and whether each that is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes an element."""
        if tag not in _VOID:
            self.open.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_endtag(self, tag: str) -> None:
        """Checks that the element closed is the one opened last."""
        if self.open.pop() != tag:
            raise AssertionError(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        """Keeps the text."""
        self.text += data


class PageTest(unittest.TestCase):
    """The page ``conformance.html``."""

    def test_whole(self) -> None:
        """The page is well formed and needs no other file; each link of a bad cell has its entry."""
        page = Parsed(html_text(everything(), grids(everything().matrix)))
        self.assertEqual(page.open, [])
        inner = [link for link in page.links if link.startswith("#")]
        self.assertEqual(sorted(set(inner)), [f"#c{number}" for number in range(5)])
        self.assertLessEqual({link[1:] for link in inner}, set(page.ids))
        self.assertEqual({link for link in page.links if not link.startswith("#")}, {"data:,"})

    def test_says(self) -> None:
        """States are told in words, and a bad cell with its difference and the command to run it again."""
        text = Parsed(html_text(everything(), grids(everything().matrix))).text
        for state in State:
            self.assertIn(state.value, text)
        for said in (
            "Conformance of mine on xpu",
            everything().line,
            "torch 2.13.0",
            "off by one",
            '<b> & "quoted"',
            f"python run_tests.py {TEST.format('wrong')}",
            "known: no int16 yet",
            "✗ 0/1 wrong",
        ):
            self.assertIn(said, text)

    def test_empty(self) -> None:
        """A run without any cell has a page too."""
        self.assertEqual(Parsed(html_text(report(), [])).open, [])


class MarkdownTest(unittest.TestCase):
    """The file ``conformance.md``."""

    def test_says(self) -> None:
        """It has the summary, the tables, and each bad cell with its difference and command."""
        text = markdown_text(everything(), grids(everything().matrix))
        self.assertIn("# Conformance of mine on xpu\n\nc10d 1/5", text)
        self.assertIn("| op\\_wrong | ✗ 0/1 wrong |", text)
        self.assertIn("(known: no int16 yet)", text)
        self.assertIn(f"`python run_tests.py {TEST.format('wrong')}`", text)
        self.assertIn('\\<b> & "quoted" \\| \\*star\\*', text)
        self.assertIn("## Works, and is not declared\n\n* c10d op\\_surplus", text)
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            bars = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
            self.assertEqual(len(bars), 1, table)

    def test_cut(self) -> None:
        """A long list is cut, and what it leaves out is counted."""
        bad = [cell(State.WRONG, name=f"op{number}") for number in range(MOST_LISTED + 3)]
        self.assertIn("3 more are in conformance.html and conformance.json.", markdown_text(report(*bad), []))


if __name__ == "__main__":
    unittest.main()
