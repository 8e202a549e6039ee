"""Tests that the reports in the pages are what failing tests print."""

from __future__ import annotations

import re
import unittest
from collections import Counter

from suites.selftest.forked_case import ForkedCase
from tools import failure_reports
from tools.failure_reports import REPORTS, reports

PAGE = REPORTS.parent / "failures.rst"


def masked(report: str) -> list[str]:
    """The lines of a report that say what went wrong and are the same each time, without numbers.

    In the first one Python 3.10 names the class alone.
    """
    report = re.sub(r"(?m)^([A-Z]+: (test_\w+) \([^()]*)\.\2\)", r"\1)", report)
    kept = re.findall(r"(?m)^(?:[A-Z]\w+: |harness\.|cause: |sub-test |hint: ).*", report)
    return [re.sub(r"\d+", "N", line) for line in kept]


class FailureReportsTest(ForkedCase):
    """``docs/reports`` beside a run of its module, and ``docs/failures.rst`` beside ``docs/reports``."""

    def test_printed_today(self) -> None:
        """Each test of the module has its kept report, but for numbers and for what others were doing."""
        now = reports(failure_reports.printed())
        kept = {path.stem: path.read_text(encoding="utf-8") for path in REPORTS.glob("*.txt")}
        self.assertEqual(sorted(kept), sorted(now))
        for name, report in kept.items():
            with self.subTest(name):
                self.assertEqual(masked(now[name]), masked(report))
                self.assertTrue(masked(report))

    def test_shown(self) -> None:
        """The page has each report once, below its test."""
        text = PAGE.read_text(encoding="utf-8")
        shown = re.findall(r":pyobject: Reports\.test_(\w+)\n   :dedent:\n\n.*reports/(\w+)\.txt\n", text)
        self.assertEqual(Counter(shown), Counter((path.stem, path.stem) for path in REPORTS.glob("*.txt")))

    def test_picture(self) -> None:
        """The README's picture shows one of these reports, and nothing of it comes from another site."""
        drawn = (REPORTS / "picture.svg").read_text(encoding="utf-8").replace("&#160;", " ")
        self.assertIn("rank 1 left the test after all_reduce #2 of the default group", drawn)
        self.assertNotIn("url(http", drawn)

    def test_blocks(self) -> None:
        """A report ends where the next or unittest's sum begins; a warning's line is one too."""
        rule, thin = "=" * 70, "-" * 70
        text = (
            f"EF\na.py:3: RankLeakWarning: m.C.test_w: left\n  def test_w(self):\n\n{rule}\n"
            f"ERROR: test_a (m.C.test_a)\n{thin}\none\n\ntwo\n\n{rule}\nFAIL: test_b (m.C.test_b)\n{thin}\n"
            f"three\n\n{thin}\nRan 3 tests in 1.0s\n"
        )
        wanted = {
            "a": f"ERROR: test_a (m.C.test_a)\n{thin}\none\n\ntwo\n",
            "b": f"FAIL: test_b (m.C.test_b)\n{thin}\nthree\n",
            "w": "RankLeakWarning: m.C.test_w: left\n",
        }
        self.assertEqual(reports(text), wanted)


if __name__ == "__main__":
    unittest.main()
