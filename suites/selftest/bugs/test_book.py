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


class PatternsTest(unittest.TestCase):
    """What entries know again: what the fuzzers saw of their bug, and not what resembles it."""

    def test_known_and_not_known(self) -> None:
        plain = "torch.Size([#, #]), but torch.Size([#]) in plain"
        unsynced = "silently wrong: gradient of first.weight differs"
        table = [
            ("dtensor_squeeze_in_place", f"dtensor: silently wrong: shape of v# differs: {plain} | {{0}}.squeeze_()", True),  # noqa: E501
            ("dtensor_squeeze_in_place", f"dtensor: silently wrong: shape of v# differs: {plain} | {{0}} @ {{1}}", True),  # noqa: E501
            ("dtensor_squeeze_in_place", f"dtensor: silently wrong: shape of v# differs: {plain} | {{0}}.mean(0); torch.nn.functional.linear({{0}}, {{1}})", True),  # noqa: E501
            ("dtensor_squeeze_in_place", "dtensor: refused: IndexError: tuple index out of range | {0}.squeeze_(); {0}.chunk(2)[1]", True),  # noqa: E501
            ("dtensor_squeeze_in_place", "dtensor: silently wrong: value of v# differs | {0}.squeeze_()", False),  # noqa: E501
            ("dtensor_squeeze_in_place", "dtensor: hangs: timed out | {0}.squeeze_(); {0} @ {1}", False),
            ("dtensor_squeeze_in_place", "dtensor: silently wrong: shape of v# differs: torch.Size([]), but torch.Size([#]) in plain | {0} @ {1}", False),  # noqa: E501
            ("dtensor_write_to_base_of_view", "dtensor: silently wrong: value of v# differs, (Shard(dim=#),) | {0}.narrow(0, 1, 2); {0}.mul_(2)", True),  # noqa: E501
            ("dtensor_write_to_base_of_view", "dtensor: silently wrong: value of v# differs | {0}.mul_(2); {0}.add_(1)", False),  # noqa: E501
            ("dtensor_write_to_base_of_view", "dtensor: silently wrong: value of v# differs | {0} + 1; {0}.mul_(2)", False),  # noqa: E501
            ("ddp_sparse_gradient_divided_in_place", f"ddp: {unsynced} | linear; sparse; step(1)", True),
            ("ddp_sparse_gradient_divided_in_place", f"ddp: {unsynced} | sparse; output; static_graph; step(1)", False),  # noqa: E501
            ("ddp_sparse_gradient_divided_in_place", f"ddp: {unsynced} | linear; step(1)", False),
            ("compiled_write_under_no_grad", "compile: silently wrong: argument #: gradient of leaf # | t0 = a.view_as(a); with torch.inference_mode(): b.mul_(2); return b | y0", True),  # noqa: E501
            ("compiled_write_under_no_grad", "compile: silently wrong: argument #: gradient of leaf # | with torch.no_grad(): t0 = a + 1; return t0 | y0", False),  # noqa: E501
            ("compiled_write_under_no_grad", "compile: silently wrong: argument #: values | with torch.no_grad(): b.mul_(2); return gradient | y0", False),  # noqa: E501
            ("tcp_store_get_of_a_queue", "stores: silently wrong: no order of the calls gives what they gave: get, queue_push | tcp; threads; get || queue_push", True),  # noqa: E501
            ("tcp_store_get_of_a_queue", "stores: silently wrong: no order of the calls gives what they gave: get, queue_push | hash; threads; get || queue_push", False),  # noqa: E501
            ("file_store_client_dies_in_a_write", "stores: hangs: timed out | file; turns; die; get", True),
            ("file_store_client_dies_in_a_write", "stores: hangs: timed out | file; turns; set; get", False),
        ]  # fmt: skip
        entries = {entry.name: entry for entry in book.entries()}
        for name, signature, expected in table:
            with self.subTest(name=name, signature=signature):
                self.assertIs(entries[name].knows(signature), expected)


if __name__ == "__main__":
    unittest.main()
