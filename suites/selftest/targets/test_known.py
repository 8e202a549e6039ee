"""Tests the table of a target's known failures."""

from __future__ import annotations

import types
import unittest

from harness.errors import UsageError
from harness.targets.known import Known, from_json, known_of, to_json

TEST = "suites.c10d.test_x.Ranks.test_bool"


class KnownTest(unittest.TestCase):
    """One entry of the table."""

    def test_concerns(self) -> None:
        """A pattern is of whole ids, with or without the name of the folder of suites."""
        for pattern, expected in (
            (TEST, True),
            ("c10d.test_x.Ranks.test_bool", True),
            ("c10d.*", True),
            ("suites.c10d.*_bool", True),
            ("*.Ranks.test_[ab]ool", True),
            ("test_bool", False),
            ("c10d", False),
            ("C10D.*", False),
        ):
            with self.subTest(pattern):
                self.assertEqual(Known(pattern, "why").concerns(TEST), expected)

    def test_releases(self) -> None:
        """An entry is about the releases of torch from ``since`` up to ``before``, without that."""
        for since, before, here in (
            (None, None, True),
            ("1.0", "99.0", True),
            ("99.0", None, False),
            (None, "1.0", False),
        ):
            with self.subTest(since=since, before=before):
                self.assertEqual(Known("*", "why", since, before).is_here(), here)


class TableTest(unittest.TestCase):
    """``KNOWN`` of a plugin."""

    def module(self, table: object) -> types.ModuleType:
        made = types.ModuleType("mine")
        vars(made)["KNOWN"] = table
        return made

    def test_tables(self) -> None:
        """A table has what is about this release of torch; a plugin need not have one."""
        here, gone = Known("a.*", "new", since="1.0"), Known("b.*", "old", before="1.0")
        self.assertEqual(known_of(self.module((here, gone))), (here,))
        self.assertEqual(known_of(types.ModuleType("mine")), ())
        self.assertEqual(known_of(None), ())

    def test_mistakes(self) -> None:
        """Anything else is one line that names the plugin and says what to write."""
        for table, said in (
            (["a.*"], "write Known"),
            (7, "no tuple of Known"),
            ({"a": 1}, "no tuple of Known"),
        ):
            with self.subTest(table), self.assertRaisesRegex(UsageError, f"plugin mine .*{said}"):
                known_of(self.module(table))

    def test_json(self) -> None:
        """Another process gets the patterns and the reasons."""
        table = (Known("a.*", "new", since="1.0"),)
        self.assertEqual(from_json(to_json(table)), (Known("a.*", "new"),))


if __name__ == "__main__":
    unittest.main()
