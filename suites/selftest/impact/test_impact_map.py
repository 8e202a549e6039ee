"""Tests the map of which files tests execute: collected, written and read, merged with an older one."""

from __future__ import annotations

import gzip
import json
import tempfile
import unittest
from pathlib import Path

from harness.errors import UsageError
from harness.impact import impact_map
from harness.impact.impact_map import ImpactMap

A, B, C = "app/a.py", "app/\udcff.py", "torch/c.py"
MAP = ImpactMap(
    "2.13", {"m.T.y[1.5]": frozenset({C}), "m.T.x": frozenset({A, B, C})}, {A: "1", B: "2", C: "3"}
)


class CollectTest(unittest.TestCase):
    """``collect``, from what recorders noted."""

    def test_fixtures(self) -> None:
        """What fixtures execute counts for the tests of their class or module; others have left nothing."""
        entries = [
            ("m", "/a"),
            ("m.T", "/b"),
            ("m.T.x", "/c"),
            ("m.U.x", "/d"),
            ("m.T.x", "/no"),
            ("n", "/e"),
        ]
        found = impact_map.collect(
            entries,
            ["m.T.x", "m.T.y[2.5]", "m.U.x", "o.T.x"],
            lambda path: None if path == "/no" else f"p{path}",
            str.upper,
            "2.13",
        )
        wanted = {"m.T.x": {"p/a", "p/b", "p/c"}, "m.T.y[2.5]": {"p/a", "p/b"}, "m.U.x": {"p/a", "p/d"}}
        self.assertEqual(found.tests, wanted)
        self.assertEqual(found.digests, {file: file.upper() for file in ("p/a", "p/b", "p/c", "p/d")})


class FileTest(unittest.TestCase):
    """The map in a file."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.path = Path(temporary.name, "state", "map")

    def test_same_again(self) -> None:
        """It is read as it was written; the same map, in whatever order, is the same file."""
        MAP.write(self.path)
        self.assertEqual(impact_map.read(self.path), MAP)
        written = self.path.read_bytes()
        self.assertEqual(written[4:8], bytes(4))  # gzip's time
        tests, digests = dict(reversed([*MAP.tests.items()])), dict(reversed([*MAP.digests.items()]))
        ImpactMap("2.13", tests, digests).write(self.path)
        self.assertEqual(self.path.read_bytes(), written)

    def test_none(self) -> None:
        """Where there is no file, the map is empty; what is no map is refused, with what to do."""
        self.assertEqual(impact_map.read(self.path), ImpactMap())
        MAP.write(self.path)
        kept = json.loads(gzip.decompress(self.path.read_bytes()))
        for data in (
            b"",
            gzip.compress(b"[]"),
            gzip.compress(json.dumps({**kept, "version": 0}).encode()),
            gzip.compress(json.dumps({**kept, "tests": {"m.T.x": [9]}}).encode()),
            self.path.read_bytes()[:-20],
            self.path.read_bytes()[:20] + b"#" * 80,
        ):
            self.path.write_bytes(data)
            with self.assertRaisesRegex(UsageError, "is no map .*--record-map"):
                impact_map.read(self.path)


class MergedTest(unittest.TestCase):
    """``merged`` and ``changed_since``."""

    def test_table(self) -> None:
        """What is new goes before; tests that are gone, or executed what has changed since, are forgotten."""
        new = ImpactMap("2.13", {"m.T.z": frozenset({A})}, {A: "4"})
        for changed, there, tests in (
            ("", ("m.T.x", "m.T.y[1.5]"), {**MAP.tests, **new.tests}),
            ("", ("m.T.x",), {"m.T.x": MAP.tests["m.T.x"], **new.tests}),
            (A, ("m.T.x", "m.T.y[1.5]"), {"m.T.y[1.5]": MAP.tests["m.T.y[1.5]"], **new.tests}),
        ):
            with self.subTest(changed=changed, there=there):
                found = impact_map.merged(MAP, frozenset([changed]), new, there.__contains__)
                self.assertEqual(found.tests, tests)
                self.assertEqual(found.digests.keys(), frozenset().union(*tests.values()))
                self.assertEqual(found.digests[A], "4")

    def test_again(self) -> None:
        """Of a test that was recorded again the new record counts alone."""
        new = ImpactMap("2.13", {"m.T.x": frozenset({C})}, {C: "3"})
        found = impact_map.merged(MAP, frozenset(), new, lambda test: True)
        self.assertEqual(found, ImpactMap("2.13", {**MAP.tests, **new.tests}, {C: "3"}))

    def test_another_release(self) -> None:
        """Of a map of another release of torch nothing is left."""
        new = ImpactMap("2.14", {"m.T.z": frozenset({A})}, {A: "4"})
        self.assertEqual(impact_map.merged(MAP, frozenset(), new, lambda test: True), new)

    def test_joined(self) -> None:
        """Of shards, a later one goes before; tests are left out whose files it found changed."""
        later = ImpactMap("2.13", {"m.T.x": frozenset({C}), "m.T.z": frozenset({A})}, {A: "1", C: "9"})
        joined = impact_map.joined([MAP, later])
        self.assertEqual(joined, later)  # y executed C as it was
        same = ImpactMap("2.13", later.tests, {A: "1", C: "3"})
        y = "m.T.y[1.5]"
        self.assertEqual(impact_map.joined([MAP, same]).tests, {**same.tests, y: MAP.tests[y]})
        self.assertEqual(impact_map.joined([MAP]), MAP)

    def test_changed_since(self) -> None:
        """A file whose digest is another has changed, and one that cannot be read."""
        with tempfile.TemporaryDirectory() as directory:
            same, other, gone = (Path(directory, name) for name in ("same", "other", "gone"))
            same.write_text("a")
            other.write_text("b")
            digest = impact_map.digest_of(same)
            known = ImpactMap("", {}, {str(path): digest for path in (same, other, gone)})
            changed = impact_map.changed_since(known, lambda file: impact_map.digest_of(Path(file)))
        self.assertEqual(changed, {str(other), str(gone)})


if __name__ == "__main__":
    unittest.main()
