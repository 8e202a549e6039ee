"""Self-tests of harness.report.junit: the file is valid for every run and has every kind of result."""

from __future__ import annotations

import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.base import RunInfo
from harness.report.junit import JUnitReporter, junit_text
from harness.report.summary import Summary, summarise
from suites.selftest.report import junit_schema, runs


class ValidityTest(unittest.TestCase):
    """The file is valid under the schema, whatever the run was."""

    def assertValid(self, summary: Summary, info: RunInfo | None = None) -> None:
        text = junit_text(info or runs.info(), summary, places=False)
        self.assertEqual(junit_schema.problems(text), [])

    def test_whole_run(self) -> None:
        self.assertValid(runs.summary())

    def test_nothing_ran_and_nothing_is_known(self) -> None:
        self.assertValid(summarise([]), RunInfo())

    def test_each_status(self) -> None:
        for status in Status:
            with self.subTest(status):
                self.assertValid(summarise([TestRecord("m.T.t", status)]), RunInfo())

    def test_each_character_that_xml_does_not_know(self) -> None:
        text = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0xD800, 0xDFFF, 0xFFFE, 0xFFFF, 0x1F600]))
        record = TestRecord(
            f"m{text}.T.t[{text}]", Status.ERROR, details=text, output=text, reason=text, warnings=(text,)
        )
        self.assertValid(summarise([record]), RunInfo(hostname=text, argv=(text,)))

    def test_odd_times(self) -> None:
        for seconds in (0.0, 1e-9, -0.5, 0.0005, 12345678.9):
            with self.subTest(seconds):
                self.assertValid(summarise([TestRecord("m.T.t", Status.PASSED, duration_s=seconds)]))

    def test_the_validator_finds_what_is_wrong(self) -> None:
        good = junit_text(runs.info(), runs.summary(), places=False)
        table = {
            "unknown element": ("<properties>", "<properties><x/>"),
            "holds": ("<system-out /><system-err /></testsuite>", "</testsuite>"),
            "unknown attribute": ("<testcase ", '<testcase line="3" '),
            "tests=": ('tests="4"', 'tests="5"'),
            "timestamp": ("T08:53:20", "T08:53:20Z"),
            "no type": ('type="error"><stackTrace', "><stackTrace"),
        }
        for said, (old, new) in table.items():
            with self.subTest(said):
                self.assertIn(old, good)
                self.assertIn(said, "\n".join(junit_schema.problems(good.replace(old, new))))


class ContentTest(unittest.TestCase):
    """What the file says about each kind of result."""

    def setUp(self) -> None:
        self.root = ElementTree.fromstring(junit_text(runs.info(), runs.summary()))

    def case(self, name: str) -> ElementTree.Element:
        found = [case for case in self.root.iter("testcase") if case.get("name") == name]
        self.assertEqual(len(found), 1, name)
        return found[0]

    def child(self, name: str, tag: str) -> ElementTree.Element:
        child = self.case(name).find(tag)
        assert child is not None, (name, tag)
        return child

    def test_failure_carries_the_whole_text_and_every_rank(self) -> None:
        failure = self.child("test_sum", "failure")
        self.assertEqual(failure.get("message"), "rank 1 failed: AssertionError: 3 != 4")
        self.assertIn("meanwhile: ranks 0, 2, 3 wait in all_reduce #5", failure.text or "")
        out = self.child("test_sum", "system-out").text or ""
        self.assertIn("rank 2: ended, 0.400 s, peak 180 MiB, 5 collectives, log /tmp/run/rank2.log", out)
        self.assertIn("---- stack of rank 2\n", out)
        self.assertIn("---- error of rank 1\nTraceback", out)

    def test_crash_and_timeout_are_errors(self) -> None:
        self.assertEqual(self.child("test_crash", "error").get("type"), "crashed")
        self.assertEqual(self.child("test_hang", "error").get("type"), "timed out")

    def test_skip_has_its_reason(self) -> None:
        self.assertEqual(self.child("test_gpu", "skipped").get("message"), "needs 1 GPU")

    def test_subtests_are_told_in_the_case(self) -> None:
        """The file counts what the console counts: a test with a failing sub-test is one failure."""
        told = "sub-test (dtype='f32'): failed on ranks 0, 1: AssertionError: 1 != 2"
        self.assertIn(told, self.child("test_dtypes", "failure").text or "")
        out = self.child("test_dtypes", "system-out").text or ""
        self.assertIn(told, out)
        self.assertIn("sub-test (dtype='f64'): skipped: no f64", out)

    def test_counts_are_the_console_s(self) -> None:
        summary = runs.summary()
        total = {name: int(self.root.get(name) or 0) for name in ("tests", "failures", "errors")}
        self.assertEqual(total["tests"], len(summary.tests) + len(summary.not_run))
        self.assertEqual(total["failures"] + total["errors"], summary.failed)

    def test_places(self) -> None:
        """A case says where its test is, seen from where the run was started, unless it must not."""
        record = TestRecord("m.T.t", Status.FAILED, file="/home/me/tests/test_m.py", line=12)
        for places, expected in ((True, ("tests/test_m.py", "12")), (False, (None, None))):
            text = junit_text(RunInfo(cwd="/home/me"), summarise([record]), places=places)
            case = ElementTree.fromstring(text).find(".//testcase")
            assert case is not None
            self.assertEqual((case.get("file"), case.get("line")), expected)

    def test_expected_failure_and_unexpected_success(self) -> None:
        self.assertEqual([c.tag for c in self.case("test_todo")], ["system-out"])
        self.assertEqual([c.tag for c in self.case("test_fixed")], ["failure"])

    def test_flaky(self) -> None:
        case = self.case("test_wait")
        self.assertEqual([c.tag for c in case], ["flakyError"])
        self.assertIn("KeyError: 1", case.findtext("flakyError/stackTrace") or "")

    def test_rerun_that_failed_again(self) -> None:
        first = TestRecord("m.T.t", Status.FAILED, details="first")
        summary = summarise([first, replace(first, status=Status.CRASHED, attempt=2, details="second")])
        root = ElementTree.fromstring(junit_text(RunInfo(), summary))
        self.assertEqual(root.findtext(".//testcase/error"), "second")
        self.assertEqual(root.findtext(".//testcase/rerunFailure/stackTrace"), "first")

    def test_not_run(self) -> None:
        self.assertEqual(self.child("test_last", "skipped").get("type"), "not run")

    def test_suites_are_modules_with_the_run_as_properties(self) -> None:
        suites = {suite.get("name"): suite for suite in self.root.iter("testsuite")}
        self.assertEqual(
            set(suites), {"suites.c10d.test_sum", "suites.c10d.test_stores", "suites.aot.test_export"}
        )
        values = {p.get("name"): p.get("value") for p in suites["suites.c10d.test_sum"].iter("property")}
        self.assertEqual((values["seed"], values["torch"]), ("7", "2.13.0"))

    def test_repeats_have_names_of_their_own(self) -> None:
        records = [TestRecord("m.T.t", Status.PASSED, repeat=n) for n in (1, 2)]
        root = ElementTree.fromstring(junit_text(RunInfo(), summarise(records)))
        self.assertEqual([c.get("name") for c in root.iter("testcase")], ["t", "t [repeat 2]"])

    def test_file(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "run" / "junit.xml"
            reporter = JUnitReporter(path, places=False)
            reporter.start(runs.info())
            reporter.finish(runs.summary())
            self.assertEqual(junit_schema.problems(path.read_text(encoding="utf-8")), [])


if __name__ == "__main__":
    unittest.main()
