"""Tests that all reports of a run hold the same tests, whatever these are called and however they ended."""

from __future__ import annotations

import json
import unittest
from xml.etree import ElementTree

from hypothesis import strategies as st

from harness.outcomes import Status
from harness.record import SubtestRecord, TestRecord, from_json
from harness.report.base import RunInfo
from harness.report.html import page_data
from harness.report.junit import junit_text
from harness.report.results import results_text
from harness.report.summary import summarise
from suites.selftest.properties import given

# Parts of names that XML, JSON, a terminal or the writing of an id by its dots could stumble over.
PLAIN = ("a", ".", " ", "\\", "\\u0000", "&", "&amp;", "<", "]]>", '"', "'", "(", "[0.5]", "l" * 300)
CONTROLS = ("\n", "\r", "\t", "\0", "\x1b[31m", "\x85")
UNUSUAL = ("\udc80", "\ud800 ", "\ufffe", "\uffff", "\u2028", "\u202e", "é", "e\u0301")
NAMES = st.lists(st.sampled_from((*PLAIN, *CONTROLS, *UNUSUAL)), max_size=4).map(
    lambda parts: f"m.T.test_{''.join(parts)}"
)
SUBTESTS = st.builds(SubtestRecord, NAMES, st.sampled_from((Status.FAILED, Status.SKIPPED)), NAMES)
RECORDS = st.builds(
    TestRecord,
    NAMES,
    st.sampled_from(Status),
    reason=NAMES,
    details=NAMES,
    subtests=st.lists(SUBTESTS, max_size=2).map(tuple),
)


class AgreementTest(unittest.TestCase):
    """``results.jsonl``, ``junit.xml`` and the page of one run."""

    @given(st.lists(RECORDS, max_size=8, unique_by=lambda record: record.id), st.lists(NAMES, max_size=2))
    def test_same_tests(self, records: list[TestRecord], names: list[str]) -> None:
        """Each report has each test once, under a name of its own, and the counts of the run."""
        absent = {name for name in names if name not in {record.id for record in records}}
        summary = summarise(records, selected=[*(r.id for r in records), *sorted(absent)])
        self.assertEqual(summary.passed + summary.failed + summary.skipped, len(records))
        self.assertEqual(len(page_data(RunInfo(), summary)["tests"]), len(records))
        junit = ElementTree.fromstring(junit_text(RunInfo(), summary).encode(errors="backslashreplace"))
        cases = junit.findall(".//testcase")
        self.assertEqual(len(cases), len(records) + len(absent))
        self.assertEqual(junit.get("tests"), str(len(cases)))
        self.assertEqual(sum(int(suite.get("tests", "0")) for suite in junit.iter("testsuite")), len(cases))

    @given(st.lists(NAMES, max_size=8, unique=True))
    def test_names_stay_apart(self, names: list[str]) -> None:
        """Tests with different names have different names in ``junit.xml``."""
        summary = summarise([TestRecord(name, Status.PASSED) for name in names])
        junit = ElementTree.fromstring(junit_text(RunInfo(), summary))
        found = {(case.get("classname"), case.get("name")) for case in junit.iter("testcase")}
        self.assertEqual(len(found), len(names))

    @given(st.lists(RECORDS, max_size=4, unique_by=lambda record: record.id))
    def test_results_are_lossless(self, records: list[TestRecord]) -> None:
        """Each record is read back from the bytes of ``results.jsonl`` as it was, lone surrogates too."""
        data = results_text(RunInfo(), summarise(records)).encode(errors="backslashreplace")
        lines = [json.loads(line) for line in data.split(b"\n") if line]
        self.assertEqual([from_json(v) for v in lines if v["kind"] == "test"], records)


if __name__ == "__main__":
    unittest.main()
