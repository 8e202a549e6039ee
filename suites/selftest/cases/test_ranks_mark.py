"""Tests what a mark for test functions on ranks may say."""

from __future__ import annotations

import unittest
from typing import Any

from harness.cases.ranks_mark import RanksMark
from harness.errors import UsageError


class MarkTest(unittest.TestCase):
    """``RanksMark.of``, which says what is wrong in one line."""

    def test_table(self) -> None:
        """Arguments of the mark, and the mark or the words of the error; a text names a parameter."""
        table: list[tuple[tuple[Any, ...], dict[str, Any], Any]] = [
            ((4,), {}, RanksMark(4)),
            ((), {"world_size": 2, "backend": None, "mode": "threads"}, RanksMark(2, None, "threads")),
            ((), {}, "@pytest.mark.ranks(): write @pytest.mark.ranks(4)"),
            ((2,), {"size": 2}, "@pytest.mark.ranks(2, size=2): write"),
            ((0,), {}, "the number of ranks is 1 or more"),
            ((True,), {}, "the number of ranks is 1 or more"),
            ((2,), {"mode": "local"}, "mode is one of fresh, pooled, threads"),
            (("n",), {"mode": "pooled"}, RanksMark(3, mode="pooled")),
            ((), {"world_size": "n"}, RanksMark(3)),
            (("m",), {}, "@pytest.mark.ranks('m'): the test has no parameter 'm'"),
            (("text",), {}, "the number of ranks is 1 or more"),
        ]
        for args, kwargs, expected in table:
            with self.subTest(args=args, kwargs=kwargs):
                try:
                    found: object = RanksMark.of(args, kwargs, {"n": 3, "text": "2"})
                except UsageError as error:
                    self.assertIn(expected, str(error))
                    self.assertNotIn("\n", str(error))
                else:
                    self.assertEqual(found, expected)


if __name__ == "__main__":
    unittest.main()
