"""Tests the timings file: its estimates, its merging, and that a broken one cannot stop a run."""

from __future__ import annotations

import os
import stat
import tempfile
import textwrap
import unittest
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from hypothesis import strategies as st

from harness.errors import UsageError
from harness.outcomes import Status
from harness.record import TestRecord
from harness.runner.scheduling import timings
from harness.runner.scheduling.timings import BLIND_S, DIGITS, Timings
from harness.runner.scheduling.unit import of_id
from suites.selftest.properties import given

entries = st.dictionaries(st.text(), st.floats(0, 10**5), max_size=8)
values = st.builds(Timings, entries, entries)

KNOWN = Timings(
    {
        "suites.a.test_one.Case.test_x": 1.0,
        "suites.a.test_one.Case.test_y": 3.0,
        "suites.a.test_one.Other.test_x": 50.0,
        "suites.a.test_one_more.Case.test_x": 1000.0,
        "suites.b.test_two.Case.test_x": 9.0,
    },
    {"import suites.a.test_one": 2.0, "suites.a.test_one": 0.5, "suites.a.test_one.Case": 0.25},
)


def backwards(table: Mapping[str, float]) -> dict[str, float]:
    return dict(reversed(list(table.items())))


class EstimateTest(unittest.TestCase):
    def test_the_nearest_that_is_known(self) -> None:
        table = (
            ("suites.a.test_one.Case.test_x", 1.0),
            ("suites.a.test_one.Case.test_new", 2.0),
            ("suites.a.test_one.New.test_x", 3.0),
            ("suites.a.test_one.New.Inner.test_x", 3.0),
            ("suites.a.test_new.Case.test_x", 26.5),
            ("suites.new.test_new.Case.test_x", 9.0),
            ("other.Case.test_x", BLIND_S),
            ("name", BLIND_S),
        )
        estimates = KNOWN.estimates(test_id for test_id, _ in table)
        self.assertEqual(estimates, dict(table))

    def test_recorded(self) -> None:
        """Only tests of which something is known, and kept times go before those of the seed."""
        seed, kept = Timings({"a.C.x": 1.0, "a.C.y": 3.0}, {"a": 1.0}), Timings({"a.C.x": 9.0}, {"b": 2.0})
        self.assertEqual(seed.recorded(["a.C.x", "a.C.z", "b.C.x"]), {"a.C.x": 1.0, "a.C.z": 2.0})
        near = KNOWN.recorded(["suites.a.test_one.New.test_x", "suites.a.test_new.Case.test_x"])
        self.assertEqual(near, {"suites.a.test_one.New.test_x": 3.0}, "by its module, not by its package")
        self.assertEqual(kept.over(seed), Timings({"a.C.x": 9.0, "a.C.y": 3.0}, {"a": 1.0, "b": 2.0}))

    def test_nothing_known(self) -> None:
        self.assertEqual(Timings().estimates(["a.B.c"]), {"a.B.c": BLIND_S})

    def test_expect(self) -> None:
        units = [of_id("suites.b.test_two.Case.test_x", "suites.b.test_two"), of_id("x.Y.z", "x")]
        self.assertEqual([unit.expected_s for unit in KNOWN.expect(units)], [9.0, BLIND_S])
        self.assertEqual([unit.id for unit in KNOWN.expect(units)], [unit.id for unit in units])

    def test_fixtures_of(self) -> None:
        table = (
            ("suites.a.test_one.Case.test_x", tuple(KNOWN.fixtures)),
            ("suites.a.test_one.Other.test_x", tuple(KNOWN.fixtures)[:2]),
            ("suites.a.test_one_more.Case.test_x", ()),
        )
        for test_id, keys in table:
            with self.subTest(test_id):
                self.assertEqual(KNOWN.fixtures_of(test_id), keys)


class MergeTest(unittest.TestCase):
    def test_half_new_half_old(self) -> None:
        old = Timings({"a": 4.0, "gone": 7.0}, {"m": 1.0})
        new = Timings({"a": 2.0, "new": 5.0}, {"m": 3.0, "n": 1.0})
        want = Timings({"a": 3.0, "gone": 7.0, "new": 5.0}, {"m": 2.0, "n": 1.0})
        self.assertEqual(timings.merge(old, [new]), want)

    def test_the_newest_weighs_most(self) -> None:
        runs = [Timings({"a": seconds}) for seconds in (8.0, 4.0, 0.0)]
        self.assertEqual(timings.merge(Timings(), runs).tests, {"a": 3.0})

    def test_a_lasting_change_is_followed(self) -> None:
        value = timings.merge(Timings({"a": 100.0}), [Timings({"a": 1.0})] * 12)
        self.assertAlmostEqual(value.tests["a"], 1.0, delta=0.05)

    def test_pooled_takes_the_median(self) -> None:
        parts = [
            Timings({"a": 1.0}),
            Timings({"a": 9.0}, {"m": 1.0}),
            Timings({"a": 2.0, "b": 5.0}, {"m": 2.0, "warm up m": 1.0}),
            Timings({}, {"warm up m": 4.0}),
        ]
        self.assertEqual(timings.pooled(parts), Timings({"a": 2.0, "b": 5.0}, {"m": 1.5, "warm up m": 4.0}))

    def test_of_record(self) -> None:
        """A test that did not fail has its seconds and those of its fixtures.

        Any other number is an error.
        """
        fixtures = {"fixtures_s": {"import m": 0.25}}
        for status in Status:
            record = TestRecord("m.T.test", status, duration_s=0.5, extra=fixtures)
            wanted = Timings({"m.T.test": 0.5}, {"import m": 0.25}) if record.ok else Timings()
            with self.subTest(status=status):
                self.assertEqual(timings.of_record(record), wanted)
        for wrong in (-1.0, float("nan"), 1e12):
            with self.subTest(wrong=wrong), self.assertRaisesRegex(ValueError, "not a number of seconds"):
                timings.of_record(TestRecord("m.T.test", Status.PASSED, duration_s=wrong))

    def test_pruned(self) -> None:
        fixtures = {"import m": 1.0, "m.C": 2.0, "m": 3.0, "import n": 4.0, "m.D": 5.0, "warm up m": 6.0}
        value = Timings({"m.C.a": 1.0, "m.D.a": 7.0}, fixtures)
        want = Timings({"m.C.a": 1.0}, {"import m": 1.0, "m.C": 2.0, "m": 3.0, "warm up m": 6.0})
        self.assertEqual(timings.pruned(value, ["m.C.a", "m.C.new"]), want)


class KeepTest(unittest.TestCase):
    """``keep``, after each run."""

    def test_merged(self) -> None:
        """Times of tests that passed are merged into the file; a directory that is missing is no error."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "timings.json")
            timings.keep(path, [TestRecord("m.T.a", Status.PASSED, duration_s=1.0)])
            timings.keep(path, [TestRecord("m.T.a", Status.PASSED, duration_s=3.0)])
            timings.keep(path, [TestRecord("m.T.a", Status.FAILED, duration_s=9.0)])
            self.assertEqual(timings.load(path)[0].tests, {"m.T.a": 2.0})
            timings.keep(Path(directory, "missing", "x"), [TestRecord("m.T.a", Status.PASSED)])

    def test_gone(self) -> None:
        """What is kept of tests that a module has no more is dropped; other modules' entries stay."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "timings.json")
            kept = ("m.T.a", "m.T.b", "m.test_p[x.y]", "m.test_p[z]", "m.sub.T.a", "other.T.a", "mm.T.a")
            timings.keep(path, [TestRecord(test_id, Status.PASSED, duration_s=1.0) for test_id in kept])
            there = {"m": frozenset({"m.T.a", "m.test_p[x.y]"}), "m.sub": frozenset({"m.sub.T.a"})}
            timings.keep(path, [TestRecord("m.T.a", Status.PASSED, duration_s=1.0)], there)
            left = sorted(timings.load(path)[0].tests)
        self.assertEqual(left, ["m.T.a", "m.sub.T.a", "m.test_p[x.y]", "mm.T.a", "other.T.a"])


class FileTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name) / "timings.json"

    @given(values)
    def test_round_trip_to_the_millisecond(self, value: Timings) -> None:
        timings.save(value, self.path)
        loaded, warning = timings.load(self.path)
        self.assertIsNone(warning)
        self.assertEqual(loaded.tests, {key: round(s, DIGITS) for key, s in value.tests.items()})
        self.assertEqual(loaded.fixtures, {key: round(s, DIGITS) for key, s in value.fixtures.items()})

    @given(values)
    def test_order_of_entries_does_not_show(self, value: Timings) -> None:
        turned = Timings(backwards(value.tests), backwards(value.fixtures))
        self.assertEqual(timings.dumps(value), timings.dumps(turned))

    def test_an_entry_a_line(self) -> None:
        text = timings.dumps(Timings({"b": 1.23456, "a": 2}, {"m": 0.1}))
        want = """\
            {
              "version": 1,
              "tests": {
                "a": 2,
                "b": 1.235
              },
              "fixtures": {
                "m": 0.1
              }
            }
            """
        self.assertEqual(text, textwrap.dedent(want))

    def test_no_file_is_no_timings_and_no_warning(self) -> None:
        self.assertEqual(timings.load(self.path), (Timings(), None))

    def test_a_broken_file_is_one_warning(self) -> None:
        table = (
            b"",
            b"{",
            b"\xff\xfe",
            b"[]",
            b"3",
            b"{}",
            b'{"version": "1"}',
            b'{"version": 2, "tests": {}}',
            b'{"version": 1, "tests": []}',
            b'{"version": 1, "tests": {"a": "fast"}}',
            b'{"version": 1, "tests": {"a": -1}}',
            b'{"version": 1, "tests": {"a": NaN}}',
            b'{"version": 1, "tests": {"a": Infinity}}',
            b'{"version": 1, "tests": {"a": 1e300}}',
            b'{"version": 1, "tests": {"a": true}}',
            b'{"version": 1, "tests": {"a": null}}',
            b'{"version": 1, "fixtures": {"a": {}}}',
            b'{"version": 1, "tests": {"a": ' + b"9" * 5000 + b"}}",
            b"[" * 100_000,
        )
        for content in table:
            with self.subTest(content=content[:40]):
                self.path.write_bytes(content)
                self.assert_one_warning()

    def test_a_directory_is_one_warning(self) -> None:
        self.path.mkdir()
        self.assert_one_warning()

    def test_what_a_run_goes_by(self) -> None:
        """The default file may be missing, and a file that is named or used for shards must be whole."""
        broken, missing, whole = (str(self.path.with_name(name)) for name in ("broken", "missing", "whole"))
        Path(broken).write_text("{")
        timings.save(Timings({"a": 1.0}), Path(whole))
        table: tuple[tuple[str | None, str, bool, str | None], ...] = (
            (None, missing, False, ""),
            (None, missing, True, ""),
            (None, whole, True, ""),
            (None, broken, False, f"{broken}: no timings used: "),
            (None, broken, True, None),
            (whole, broken, True, ""),
            (broken, whole, False, None),
            (missing, whole, False, None),
            ("", whole, False, None),
        )
        for named, default, sharded, warning in table:
            with (
                self.subTest(named=named, default=default, sharded=sharded),
                mock.patch.object(timings, "default_path", return_value=Path(default)),
            ):
                if warning is None:
                    with self.assertRaisesRegex(UsageError, "update_timings.py writes such files"):
                        timings.load_for(named, sharded=sharded)
                else:
                    loaded, said = timings.load_for(named, sharded=sharded)
                    self.assertEqual(loaded.tests, {"a": 1.0} if (named or default) == whole else {})
                    self.assertEqual((said or "")[: len(warning)], warning)

    def assert_one_warning(self) -> None:
        loaded, warning = timings.load(self.path)
        self.assertEqual(loaded, Timings())
        assert warning is not None
        self.assertTrue(warning.startswith(str(self.path)))
        self.assertNotIn("\n", warning)

    def test_only_known_parts_count(self) -> None:
        self.path.write_text('{"version": 1, "tests": {"a": 1}, "remark": "from a quiet night"}')
        self.assertEqual(timings.load(self.path), (Timings({"a": 1.0}), None))

    def test_save_replaces_at_once_or_not_at_all(self) -> None:
        timings.save(Timings({"a": 1.0}), self.path)
        before = self.path.read_text()
        with mock.patch.object(os, "replace", side_effect=OSError("no")), self.assertRaises(OSError):
            timings.save(Timings({"a": 2.0}), self.path)
        self.assertEqual(self.path.read_text(), before)
        self.assertEqual([path.name for path in self.path.parent.iterdir()], [self.path.name])

    def test_a_saved_file_can_be_read_by_others(self) -> None:
        timings.save(Timings(), self.path)
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o644)

    def test_the_default_path_is_in_this_tree(self) -> None:
        self.assertEqual(timings.default_path(), Path(__file__).resolve().parents[3] / "timings.json")


if __name__ == "__main__":
    unittest.main()
