"""Tests the files of a merged run beside those of a run that was not split, except for times and workers."""

from __future__ import annotations

import json
import re
import unittest
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from harness.impact import impact_map
from harness.merge.cli import summary_of
from harness.merge.merged import merged
from harness.merge.write import write
from harness.runner import journal
from harness.runner.scheduling import timings as timings_file
from suites.selftest.merge.samples import halves
from suites.selftest.runner import runs

# All kinds of results: a module that fails to import, one that skips itself, sub-tests, reruns, fixtures.
MODULE = """
    class A(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            cls.ready = True

        def test_pass(self):
            pass

        def test_fail(self):
            self.fail("as it should")

        def test_error(self):
            raise RuntimeError("as it should")

        def test_skip(self):
            self.skipTest("no reason")

        def test_crash(self):
            os._exit(3)

    class B(unittest.TestCase):
        @unittest.expectedFailure
        def test_expected(self):
            self.fail()

        @unittest.expectedFailure
        def test_unexpected(self):
            pass

        def test_sub(self):
            for number in range(3):
                with self.subTest(number=number):
                    self.assertNotEqual(number, 1)

        def test_flaky(self):
            try:
                os.mkdir(os.environ["FLAKY"])
            except FileExistsError:
                return
            self.fail("the first time")
"""
# What depends on when, where and by which worker a test ran, by its name in a record or in a page.
_TIMES = {
    *("duration_s", "started_at", "started_s", "worker", "seconds", "at", "pid", "memory", "jobs"),
    *("peak_memory", "fixtures_s", "may_warm_up", "command", "argv", "total"),
}


def timeless(value: Any) -> Any:
    """A value of JSON without what depends on the time."""
    if isinstance(value, dict):
        return {name: timeless(each) for name, each in value.items() if name not in _TIMES}
    return [timeless(each) for each in value] if isinstance(value, list) else _without_numbers(value)


def _without_numbers(value: Any) -> Any:
    return re.sub(r"\b[0-9.]+ (s|ms|MiB)\b|0x[0-9a-f]+", "N", value) if isinstance(value, str) else value


def lines(file: Path) -> list[Any]:
    """The lines of a file of JSON, of tests in the order of their ids."""
    values = [timeless(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    return sorted(
        values, key=lambda value: json.dumps([value["kind"], value.get("id"), value.get("attempt")])
    )


def suites(file: Path) -> list[Any]:
    """The cases of a ``junit.xml``, with what is in them, and the properties of its suites, without times."""
    root = ElementTree.parse(file).getroot()
    for element in root.iter():
        for name in ("time", "timestamp", "id"):
            element.attrib.pop(name, None)
        if element.tag == "property" and element.attrib["name"] in ("command", "jobs"):
            element.attrib["value"] = ""
    texts = [
        _without_numbers(ElementTree.tostring(each, "unicode").strip()) for each in root.iter("testcase")
    ]
    properties = {ElementTree.tostring(each, "unicode").strip() for each in root.iter("property")}
    return [sorted(texts), sorted(properties), root.attrib]


def page(file: Path) -> Any:
    """The data of a ``report.html``, of tests in the order of their ids."""
    text = file.read_text(encoding="utf-8")
    found = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', text, re.S)
    assert found is not None, "the page has no data"
    data = timeless(json.loads(found[1]))
    return {**data, "tests": sorted(data["tests"], key=lambda test: test["id"])}


class BesideOneRunTest(unittest.TestCase):
    """Three shards, and the same tests in one run."""

    @classmethod
    def setUpClass(cls) -> None:
        """Runs the tests of two modules in one run and in three shards, and merges these."""
        cls.root = runs.new_directory(cls)
        runs.write_module(cls.root, "test_kinds", MODULE)
        runs.write_module(cls.root, "test_broken", "import no_such_module")
        options = ("test_kinds", "test_broken", "--reruns", "1", "--report", "html", "--trace", "--jobs", "1")
        for name, more in [("whole", ()), *((f"part-{n}", ("--shard", f"{n}/3")) for n in (1, 2, 3))]:
            flaky = str(cls.root / f"flaky-{name}")
            cls.finished = runs.run_tests(
                cls.root, *options, *more, "--record-map", "--report-dir", name, FLAKY=flaky
            )
        cls.merged = runs.run_tests(cls.root, "merge", "part-1", "part-2", "part-3", "--report-dir", "merged")

    root: Path
    finished: runs.Finished
    merged: runs.Finished

    def test_counts(self) -> None:
        """The command prints the counts of the whole, and exits as the one run did."""
        whole = [
            json.loads(line) for line in (self.root / "whole" / "results.jsonl").read_text().splitlines()
        ]
        end = whole[-1]
        counts = f"{end['passed']} passed, {end['failed']} failed, {end['skipped']} skipped"
        self.assertEqual(self.merged.out.splitlines()[-1], counts, self.merged.err)
        self.assertEqual((self.merged.code, end["exit_code"]), (1, 1))

    def test_results(self) -> None:
        """``results.jsonl`` and the journal's records are the same, line by line."""
        for name in ("results.jsonl", journal.NAME):
            with self.subTest(name):
                whole, made = (lines(self.root / each / name) for each in ("whole", "merged"))
                for one, other in zip(whole, made, strict=True):
                    if one["kind"] == "run":
                        one, other = ({**each, "options": None} for each in (one, other))
                    self.assertEqual(one, other)

    def test_junit(self) -> None:
        """``junit.xml`` has the same cases, results and texts."""
        for whole, made in zip(
            *(suites(self.root / each / "junit.xml") for each in ("whole", "merged")), strict=True
        ):
            self.assertEqual(whole, made)

    def test_page(self) -> None:
        """``report.html`` shows the same tests."""
        whole, made = (page(self.root / each / "report.html") for each in ("whole", "merged"))
        self.assertEqual(whole, made)

    def test_trace(self) -> None:
        """``trace.json`` has the same slices, on a lane for each worker of each shard."""
        events = [
            json.loads((self.root / name / "trace.json").read_text())["traceEvents"]
            for name in ("whole", "merged")
        ]
        whole, made = (
            sorted(json.dumps([e["name"], e["args"]], sort_keys=True) for e in each if e["ph"] == "X")
            for each in events
        )
        self.assertEqual(made, whole)
        lanes = {e["args"]["name"] for e in events[1] if e["name"] == "process_name"}
        self.assertLessEqual({f"worker {shard}.1" for shard in (1, 2, 3)}, lanes)

    def test_last_failed(self) -> None:
        """The failed tests are listed, a name a line, and are what ``--last-failed`` would run."""
        named = (self.root / "merged" / "last-failed.txt").read_text().split()
        self.assertEqual(len(named), 6, named)
        again = runs.run_tests(self.root, "--last-failed", "--list", FLAKY=str(self.root / "flaky-whole"))
        self.assertEqual(sorted(again.out.split()), sorted(named))

    def test_timings(self) -> None:
        """The recorded times are a timings file with every test that did not fail."""
        found, warning = timings_file.load(self.root / "merged" / "timings.json")
        self.assertIsNone(warning)
        tests = {name.rpartition(".")[2] for name in found.tests}
        self.assertEqual(tests, {"test_pass", "test_skip", "test_expected", "test_flaky"})

    def test_impact(self) -> None:
        """The map of which files tests execute has those of all shards, each of which has a part."""
        whole, made, *parts = (
            impact_map.read(self.root / name / impact_map.NAME)
            for name in ("whole", "merged", "part-1", "part-2", "part-3")
        )
        self.assertEqual(made, whole)
        self.assertEqual(made.tests.keys(), set().union(*(part.tests for part in parts)))
        self.assertTrue(all(len(part.tests) < len(whole.tests) for part in parts))
        self.assertIn("test_kinds.py", made.tests["test_kinds.A.test_pass"])


class WriteTest(unittest.TestCase):
    """What is there already."""

    def test_run_before(self) -> None:
        """The journal of a run that was merged there before is kept beside the new one."""
        directory = runs.new_directory(self)
        whole = merged(halves("2"))
        for _ in range(2):
            write(whole, summary_of(whole), directory)
        self.assertEqual(journal.read(directory).records, whole.records)
        self.assertTrue((directory / journal.PREVIOUS).exists())
        self.assertEqual((directory / "last-failed.txt").read_text(), "m.T.test_2\n")


if __name__ == "__main__":
    unittest.main()
