"""Tests how an entry is read from a docstring, and by what it knows its bug again."""

from __future__ import annotations

import unittest

from harness.errors import UsageError
from harness.fuzzing.signature import Kind
from suites.bugs import book

FIELDS = {
    "kind": "silently wrong",
    "expected": "a sum\n  of two",
    "happens": "none",
    "fails": "silently wrong: sum",
    "since": "2.11",
    "reach": "public API",
    "fuzzer": "sums",
    "upstream": "none found",
    "who": "everybody",
}


def script(**changed: str | None) -> str:
    """A script whose docstring has these fields; one of None is left out."""
    fields = {name: text for name, text in {**FIELDS, **changed}.items() if text is not None}
    return 'r"""A sum is wrong.\n\n' + "\n".join(f"{k}: {v}" for k, v in fields.items()) + '\n"""\n'


class ReadTest(unittest.TestCase):
    def test_fields(self) -> None:
        entry = book.read("sums", script(seen="one|two"))
        self.assertEqual((entry.title, entry.kind), ("A sum is wrong.", Kind.WRONG))
        self.assertEqual(entry.expected, "a sum of two")
        self.assertEqual((entry.seen, entry.before), (("one|two",), None))
        self.assertEqual(entry.path.name, "sums.py")

    def test_several_patterns(self) -> None:
        entry = book.read("sums", script(seen="one\nseen: two"))
        self.assertEqual(entry.seen, ("one", "two"))

    def test_refused(self) -> None:
        for text, message in (
            ("import torch\n", "no docstring"),
            (script(kind="odd"), "kind 'odd'"),
            (script(who=None), "lacks who"),
            (script(why="so"), "unknown why"),
            (script(who="all\nwho: none"), "twice who"),
            ('"""Title.\n\nno field\n"""', "'no field' is neither"),
        ):
            with self.subTest(message=message), self.assertRaisesRegex(UsageError, message):
                book.read("sums", text)

    def test_serious(self) -> None:
        for kind, reach, serious in (
            ("silently wrong", "public API", True),
            ("process dies", "public API, with fork", True),
            ("hangs", "public API", True),
            ("refused", "public API", False),
            ("silently wrong", "internal entry: aot_function", False),
        ):
            with self.subTest(kind=kind, reach=reach):
                self.assertEqual(book.read("sums", script(kind=kind, reach=reach)).serious, serious)

    def test_releases(self) -> None:
        self.assertEqual(book.read("s", script()).releases, "2.11 and later")
        old = book.read("s", script(before="2.12"))
        self.assertEqual(old.releases, "2.11 to before 2.12")
        self.assertTrue(book.read("s", script(since="2.0")).is_here())
        self.assertFalse(book.read("s", script(since="2.0", before="2.1")).is_here())


class KnownTest(unittest.TestCase):
    def test_first_that_knows(self) -> None:
        one = book.read("one", script(seen="sums: .*odd"))
        two = book.read("two", script(seen=r"five \| 2"))
        self.assertIs(book.known("sums: silently wrong: five | 2 + 3", [one, two]), two)
        self.assertIs(book.known("sums: silently wrong: odd five | 2", [one, two]), one)
        self.assertIsNone(book.known("sums: silently wrong: six | 2", [one, two]))

    def test_the_whole_book_is_read(self) -> None:
        self.assertEqual(len(book.entries()), len(list(book.ENTRIES.glob("*.py"))))
        titles = [entry.title for entry in book.entries()]
        self.assertEqual(len(titles), len(set(titles)))


if __name__ == "__main__":
    unittest.main()
