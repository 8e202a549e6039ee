"""Tests the journal: whole lines, torn lines, a single writer, and a disk that fills up."""

from __future__ import annotations

import json
import resource
import subprocess
import unittest
from pathlib import Path
from xml.etree import ElementTree

from harness.errors import UsageError
from harness.outcomes import Status
from harness.record import TestRecord, from_json
from harness.report.base import RunInfo
from harness.runner import journal
from harness.runner.journal import Journal
from suites.selftest.runner import runs
from suites.selftest.runner.runs import PATIENCE_S, RunnerCase

INFO = RunInfo(
    argv=("c10d",),
    cwd="/",
    command="python run_tests.py --seed 7",
    names={"a.T.test_1": "here/a.py::T.test_1"},
    tests=("a.T.test_1", "a.T.test_2"),
    selection=("a.T.test_1", "a.T.test_2", "a.T.test_3"),
    sources={"harness": "0123", "a": "4567"},
    hostname="one",
    platform="Linux",
    jobs=3,
    options={"slow": True},
    seed=7,
    shard=(2, 3),
    repeats=0,
)


class JournalTest(unittest.TestCase):
    """Writing and reading a journal."""

    def setUp(self) -> None:
        self.directory = runs.new_directory(self)

    def begin(self) -> Journal:
        """Returns a journal with its first line."""
        made = journal.create(self.directory)
        self.addCleanup(made.close)
        made.begin(INFO)
        return made

    def test_round_trip(self) -> None:
        """What was written is read back, odd characters included."""
        record = TestRecord("a.T.test_1", Status.FAILED, details="lone \ud800 surrogate, \0, \x1b[31m and ü")
        with self.begin() as made:
            made.add(record)
            made.end(1, 12.5, ["a note"])
        found = journal.read(self.directory)
        self.assertEqual((found.info, found.ended, found.torn), (INFO, 1, 0))
        self.assertEqual(found.messages, ("a note",))
        self.assertEqual(found.records, (record,))

    def test_torn_last_line(self) -> None:
        """A torn last line is left out, and the next writer does not append to it."""
        with self.begin() as made:
            made.add(TestRecord("a.T.test_1", Status.PASSED))
        path = self.directory / journal.NAME
        path.write_bytes(path.read_bytes() + b'{"schema":1,"kind":"test","id":"a.T.te')
        self.assertEqual(journal.read(self.directory).torn, 1)
        with Journal(path) as again:
            again.resume(["--resume"], {"slow": True}, {"HARNESS_SEED": "3"}, 1.0)
            again.add(TestRecord("a.T.test_2", Status.PASSED))
        found = journal.read(self.directory)
        self.assertEqual([r.id for r in found.records], ["a.T.test_1", "a.T.test_2"])
        self.assertIsNone(found.ended)
        self.assertEqual(found.info.tests, INFO.tests)
        self.assertEqual((found.info.options, found.info.environ), ({"slow": True}, {"HARNESS_SEED": "3"}))

    def test_every_cut(self) -> None:
        """Wherever a journal is cut off, all whole lines are read and nothing else."""
        with self.begin() as made:
            for name in INFO.tests:
                made.add(TestRecord(name, Status.PASSED))
        path = self.directory / journal.NAME
        data = path.read_bytes()
        first = data.index(b"\n")
        for size in range(first, len(data) + 1):
            found = journal.parse(data[:size].split(b"\n"), path)
            whole = data[:size].count(b"\n") - 1 if size > first else 0
            self.assertIn(len(found.records) - max(0, whole), (0, 1))
        for size in (0, 1, first - 1):
            with self.assertRaises(UsageError):
                journal.parse(data[:size].split(b"\n"), path)

    def test_what_is_no_line_of_this_run(self) -> None:
        """A line that is damaged or from elsewhere is counted and left out; the others are read."""
        done = [TestRecord(name, Status.PASSED, seed=3) for name in INFO.tests]
        with self.begin() as made:
            for record in done:
                made.add(record)
        path = self.directory / journal.NAME
        header, *lines = path.read_bytes().splitlines()
        other = header.replace(b"a.T.test_1", b"b.T.test_1")
        for strange in (
            b"[" * 100_000,
            b'{"kind":' * 100_000,
            b'{"kind":"end","exit_code":1e999}',
            b'{"kind":"end","exit_code":' + b"9" * 5000 + b"}",
            b"[]",
            b"3",
            b"\xff\xfe\0\0",
            b'{"kind":"resume","options":3,"environ":{}}',
            b'{"kind":"resume","options":{},"environ":{"HARNESS_SEED":3}}',
            b'{"kind":"resume","options":{},"environ":{"HARNESS_SEED":"\\u0000"}}',
            b'{"kind":"resume","options":{},"environ":{"HARNESS_SEED":"\\ud800"}}',
            other,
            *(lines[0].replace(b'"seed":3', b'"seed":' + value) for value in (b"NaN", b"[]", b"1e3", b'"3"')),
            lines[0].replace(b'"duration_s":0.0', b'"duration_s":NaN'),
            lines[0].replace(b'"repeat":1', b'"repeat":[1]'),
        ):
            with self.subTest(strange=strange[:60]):
                found = journal.parse([header, strange, *lines], path)
                self.assertEqual((found.info, found.records, found.torn), (INFO, tuple(done), 1))

    def test_lines_in_another_order(self) -> None:
        """Lines may be there twice, in any order, and with other line ends."""
        done = [TestRecord(name, Status.PASSED) for name in INFO.tests]
        with self.begin() as made:
            for record in done:
                made.add(record)
        path = self.directory / journal.NAME
        header, first, second = path.read_bytes().splitlines()
        for lines in (
            [b"\xef\xbb\xbf" + header, first, first, second],
            [header, b"", first, second, first, second],
            [first, header, second],
            [line + b"\r" for line in (header, first, second)],
        ):
            found = journal.parse(lines, path)
            self.assertEqual((found.info, found.records, found.torn), (INFO, tuple(done), 0))

    def test_an_attempt_that_was_cut_short(self) -> None:
        """Of an attempt that was cut short and made again, the one that ended counts."""
        cut, done = TestRecord("a.T.test_1", Status.ENDED), TestRecord("a.T.test_1", Status.PASSED)
        with self.begin() as made:
            for record in (cut, done, cut):
                made.add(record)
        self.assertEqual(journal.read(self.directory).records, (done,))

    def test_header_with_wrong_types(self) -> None:
        """A header that could not start a run is a UsageError."""
        self.begin().close()
        value = json.loads((self.directory / journal.NAME).read_text())
        wrong: dict[str, list[object]] = {
            "tests": [3, "ab", [3], None],
            "argv": [3, [3]],
            "cwd": [3, None],
            "options": [3, [3]],
            "environ": [3, {"HARNESS_SEED": 3}],
            "shard": [3, "x", [1, 2]],
            "shuffle": ["x", []],
            "schema": ["x", []],
        }
        for name, values in wrong.items():
            for each in values:
                line = json.dumps({**value, name: each}).encode()
                with self.subTest(name=name, each=each), self.assertRaises(UsageError):
                    journal.parse([line], self.directory)

    def test_newer_schema(self) -> None:
        """A journal of a newer schema is refused."""
        (self.directory / journal.NAME).write_text(
            json.dumps({"schema": 99, "kind": "run", "tests": []}) + "\n"
        )
        with self.assertRaises(UsageError):
            journal.read(self.directory)

    def test_an_older_journal_is_kept(self) -> None:
        """A new run in the same directory moves the older journal aside."""
        self.begin().close()
        self.begin().close()
        self.assertTrue((self.directory / journal.PREVIOUS).exists())
        self.assertEqual(journal.read(self.directory).info, INFO)

    def test_one_writer(self) -> None:
        """A journal has one writer at a time, and a second one is refused in one line."""
        made = self.begin()
        with self.assertRaisesRegex(UsageError, "^.*still going there; wait until it has ended$"):
            Journal(made.path)
        with self.assertRaises(UsageError):
            journal.create(self.directory)
        with journal.idle(self.directory) as idle:
            self.assertFalse(idle)
        made.close()
        with journal.idle(self.directory) as idle:
            self.assertTrue(idle)
            with self.assertRaises(UsageError):
                Journal(made.path)
        Journal(made.path).close()
        self.assertFalse((self.directory / journal.PREVIOUS).exists())

    def test_nobody_is_where_no_journal_is(self) -> None:
        """A directory without a journal is idle, and so is one whose journal is a device."""
        with journal.idle(self.directory) as idle:
            self.assertTrue(idle)
        (self.directory / journal.NAME).symlink_to("/dev/full")
        with self.begin(), journal.idle(self.directory) as idle:
            self.assertTrue(idle)

    def test_full_disk(self) -> None:
        """The first write that fails is remembered, and later ones do not raise either."""
        (self.directory / journal.NAME).symlink_to("/dev/full")
        with self.begin() as made:
            self.assertIn("No space left", str(made.failure))
            made.add(TestRecord("a.T.test_1", Status.PASSED))
            made.end(0, 0.0)


# Tests with names that XML, JSON, a terminal or a file system could stumble over.
HOSTILE = """
    CONTROLS = ("\\n", "\\0", "\\udc80", "\\x1b[31m", "\\ufffe", "\\\\u0000")

    class T(unittest.TestCase):
        def test_first(self):
            for part in ("a", *CONTROLS[:3], "x" * 3000):
                with self.subTest(part=part):
                    self.assertEqual(part, "\\ufffe")

    def body(self):
        self.assertNotIn("fail", self.id(), "\\0 \\udc80")

    for part in (*CONTROLS, "&", "&amp;", "'", " (x", "l" * 3000):
        setattr(T, "test_" + part, body)
        setattr(T, "test_fail" + part, body)
"""


class HostileNamesTest(RunnerCase):
    """A run over tests whose names are strange, which ended early, with a journal that is damaged too."""

    def test_resumed(self) -> None:
        """A resumed run has the records of an unbroken one, each once, and its reports have as many tests."""
        self.write("test_g", HOSTILE)
        whole = self.run_tests("test_g.py", "--report-dir=whole")
        self.assertEqual(len(whole.records), 23, whole.out + whole.err)
        part = self.run_tests("test_g.py", "--report-dir=part", "--failfast", "-j1")
        self.assertLess(len(part.records), 23)
        path = self.directory / "part" / journal.NAME
        lines = path.read_bytes().splitlines()
        header = lines[0].replace(b',"failfast":true', b"").replace(b'"failfast":true,', b"")
        other = lines[1].replace(b'"id":"test_g', b'"id":"other')
        path.write_bytes(b"\n".join([header, *lines[1:-1], lines[1], other, b"[" * 100_000, lines[1][:-9]]))
        resumed = self.run_tests("--resume=part")
        self.assertEqual(resumed.code, whole.code, resumed.out + resumed.err)
        self.assertEqual(self.results("part"), self.results("whole"))
        for directory in ("part", "whole"):
            junit = ElementTree.parse(self.directory / directory / "junit.xml").getroot()
            cases = [(case.get("classname"), case.get("name")) for case in junit.iter("testcase")]
            self.assertEqual((len(cases), len({*cases}), junit.get("tests")), (23, 23, "23"))

    def results(self, directory: str) -> list[tuple[str, str, str, str]]:
        """Returns what a run's ``results.jsonl`` says of each test, sorted, without times and places."""
        data = (self.directory / directory / "results.jsonl").read_bytes()
        records = [
            from_json(value) for value in map(json.loads, data.splitlines()) if value["kind"] == "test"
        ]
        return sorted((r.id, r.status.value, r.reason, r.details) for r in records)


class FullDiskTest(RunnerCase):
    """A run whose disk is full."""

    def test_from_the_start(self) -> None:
        """A run whose disk is full from the start says so, shows the results, and fails by its exit code."""
        self.write(
            "test_g", "class T(unittest.TestCase):\n    def test_1(self): pass\n    def test_2(self): pass\n"
        )
        (self.directory / "reports").mkdir()
        (self.directory / "reports" / journal.NAME).symlink_to("/dev/full")
        run = self.run_tests("test_g", "--report-dir", "reports")
        self.assertEqual(run.code, 3)
        self.assertEqual(run.out.count("journal cannot be written"), 2)  # when it happens, and in the summary
        self.assertIn("2 passed, 0 failed, 0 skipped", run.out)

    def test_in_the_middle(self) -> None:
        """Earlier lines stay readable, later results stay in memory, and all of them are reported."""
        body = "".join(f"    def test_{i:02}(self): pass\n" for i in range(40))
        self.write("test_g", f"class T(unittest.TestCase):\n{body}")
        done = subprocess.run(
            self.command("test_g", "--report-dir", "reports"),
            cwd=self.directory,
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY)),
        )
        self.assertIn("40 passed, 0 failed, 0 skipped", done.stdout)
        self.assertIn("journal cannot be written", done.stdout)
        self.assertEqual(done.returncode, 3)
        found = journal.read(Path(self.directory, "reports"))
        self.assertGreater(len(found.records), 5)
        self.assertLess(len(found.records), 40)
        again = self.run_tests("--resume")
        self.assertEqual(again.code, 0)
        self.assertEqual(len({r.id for r in again.records}), 40)
        self.assertIn("40 passed, 0 failed, 0 skipped", again.out)


if __name__ == "__main__":
    unittest.main()
