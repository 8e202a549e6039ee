"""Tests the map from lines to tests: made of what processes noted, written, read, and refused."""

from __future__ import annotations

import gzip
import tempfile
import unittest
from pathlib import Path

from harness.errors import UsageError
from tools.mutation import line_map
from tools.mutation.line_map import LineMap

FILES = ("a.py", "b.py")
MAP = LineMap("2.13", {"slow": 2.0, "quick": 1.0}, {"a.py": {3: [0, 1]}, "b.py": {4: [0]}})


class LineMapTest(unittest.TestCase):
    """``LineMap`` in a directory of its own."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name)

    def test_collect(self) -> None:
        """What several processes noted of a test counts together; a test that failed does not count."""
        noted = self.path / "noted"
        noted.mkdir()
        (noted / "1-1").write_text("@slow\n0:3\n1:4\n@failed\n1:9\n")
        (noted / "2-1").write_text("@quick\n0:3\n@slow\n0:3\n")
        self.assertEqual(line_map.collect(noted, FILES, MAP.tests, "2.13"), MAP)

    def test_merged(self) -> None:
        """What is new of a test replaces all that was known of it; other tests stay."""
        new = LineMap("2.13", {"more": 3.0, "quick": 0.5}, {"a.py": {5: [0]}, "c.py": {1: [0, 1]}})
        self.assertEqual(
            line_map.merged(MAP, new),
            LineMap(
                "2.13",
                {"slow": 2.0, "quick": 0.5, "more": 3.0},
                {"a.py": {3: [0], 5: [2]}, "b.py": {4: [0]}, "c.py": {1: [1, 2]}},
            ),
        )
        with self.assertRaisesRegex(UsageError, "torch 2.13, the other of 2.12"):
            line_map.merged(MAP, LineMap("2.12", {}, {}))

    def test_quickest_first(self) -> None:
        self.assertEqual(MAP.executing("a.py", 3), ["quick", "slow"])
        self.assertEqual(MAP.executing("a.py", 4), [])
        self.assertEqual(MAP.executing("c.py", 4), [])

    def test_written_and_read(self) -> None:
        MAP.write(self.path / "new" / "map")
        self.assertEqual(line_map.read(self.path / "new" / "map"), MAP)

    def test_refused(self) -> None:
        """What cannot be read is one line that says what to do."""
        cases = {
            "missing": None,
            "text": b"{}",
            "json": gzip.compress(b"[]"),
            "cut": gzip.compress(b"{}")[:9],
        }
        cases["newer"] = gzip.compress(b'{"version": 99}')
        cases["empty"] = gzip.compress(b'{"version": 1}')
        for name, content in cases.items():
            path = self.path / name
            if content is not None:
                path.write_bytes(content)
            with self.subTest(name), self.assertRaisesRegex(UsageError, f"{path} .* record it"):
                line_map.read(path)
