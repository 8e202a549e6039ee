"""Self-tests of harness.report.github: escaping, GitHub's limits, and what becomes an annotation."""

from __future__ import annotations

import io
import re
import tempfile
import unittest
from pathlib import Path

from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.github import (
    MAX_ANNOTATIONS,
    MAX_SUMMARY_BYTES,
    GitHubReporter,
    commands,
    summary_page,
)
from harness.report.summary import summarise
from suites.selftest.report import runs


class CommandsTest(unittest.TestCase):
    """The function ``commands``, which makes the annotations."""

    def test_whole_run(self) -> None:
        """Failures are errors; flaky tests and messages are warnings."""
        lines = commands(runs.summary())
        self.assertEqual([line.split(" ")[0] for line in lines], ["::error"] * 6 + ["::warning"] * 2)
        self.assertTrue(
            lines[0].startswith("::error file=suites/c10d/test_sum.py,line=19,title=failed%3A suites.")
        )
        self.assertIn("%0Acause: rank 1 failed: AssertionError: 3 != 4%0A", lines[0])
        self.assertTrue(lines[6].startswith("::warning file=suites/c10d/test_stores.py,line=3,"))

    def test_escaping(self) -> None:
        record = TestRecord("m.T.t[a,b:c]", Status.ERROR, details="50 %\n::error::x", file="a,b.py", line=0)
        (line,) = commands(summarise([record]))
        self.assertEqual(
            line, "::error file=a%2Cb.py,line=1,title=error%3A m.T.t[a%2Cb%3Ac]::50 %25%0A::error::x"
        )

    def test_paths_are_relative_to_the_checkout(self) -> None:
        record = TestRecord("m.T.t", Status.ERROR, file="/home/runner/work/suites/a.py", line=7)
        self.assertIn("file=suites/a.py,line=7,", commands(summarise([record]), "/home/runner/work/")[0])
        self.assertIn("file=/home/runner/work/", commands(summarise([record]), "/home/run")[0])

    def test_limit(self) -> None:
        """No more annotations of a kind are written than GitHub shows."""
        records = [TestRecord(f"m.T.t{n}", Status.FAILED) for n in range(50)]
        self.assertEqual(len(commands(summarise(records))), MAX_ANNOTATIONS)

    def test_unknown_place(self) -> None:
        """A record without a file gives an annotation without a place."""
        (line,) = commands(summarise([TestRecord("m.T.t", Status.CRASHED)]))
        self.assertEqual(line, "::error title=crashed%3A m.T.t::crashed")


class PageTest(unittest.TestCase):
    """``summary_page``: the Markdown of the job's summary."""

    def test_whole_run(self) -> None:
        page = summary_page(runs.info(), runs.summary())
        self.assertTrue(page.startswith("## ❌ 4 passed, 6 failed, 1 skipped\n"))
        self.assertEqual(page.count("<details><summary>"), 6)
        for title in ("Flaky", "Skipped", "Slowest", "Not run"):
            self.assertIn(f"### {title}\n", page)
        self.assertIn("| 1 | needs 1 GPU |", page)

    def test_good_run(self) -> None:
        page = summary_page(runs.info(), summarise([TestRecord("m.T.t", Status.PASSED)]))
        self.assertTrue(page.startswith("## ✅ 1 passed, 0 failed, 0 skipped\n"))
        self.assertNotIn("Rerun", page)

    def test_foreign_text_stays_text(self) -> None:
        text = "```\n</details><b>|bold|</b>"
        records = [
            TestRecord("m.T.t[<i>]", Status.FAILED, details=text),
            TestRecord("m.T.s", Status.SKIPPED, reason="<b>a|b</b> *c*"),
        ]
        page = summary_page(runs.info(), summarise(records))
        self.assertIn("failed: m.T.t[&lt;i&gt;]</summary>", page)
        self.assertIn(f"````text\n{text}\n````\n", page)
        self.assertIn(r"| 1 | &lt;b&gt;a\|b&lt;/b&gt; \*c\* |", page)

    def test_page_stays_below_the_limit(self) -> None:
        records = [TestRecord(f"m.T.t{n}", Status.FAILED, details="ü" * 20_000) for n in range(100)]
        page = summary_page(runs.info(), summarise(records))
        self.assertLess(len(page.encode()), MAX_SUMMARY_BYTES + 100)
        self.assertRegex(page, r"\.\.\. and \d+ failures more")
        self.assertEqual(len(re.findall("<details>", page)), len(re.findall("</details>", page)))

    def test_one_failure_that_is_too_long(self) -> None:
        records = [TestRecord("m.T.t", Status.FAILED, details="x" * 2 * MAX_SUMMARY_BYTES)]
        self.assertIn("... and 1 failure more", summary_page(runs.info(), summarise(records)))


class ReporterTest(unittest.TestCase):
    """``GitHubReporter``: where annotations and page are written."""

    def test_writes_commands_and_appends_to_the_page(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            page = Path(directory) / "summary.md"
            page.write_text("of the step before\n", encoding="utf-8")
            stream = io.StringIO()
            reporter = GitHubReporter(stream, {"GITHUB_STEP_SUMMARY": str(page)})
            reporter.start(runs.info())
            reporter.finish(runs.summary())
            self.assertTrue(page.read_text(encoding="utf-8").startswith("of the step before\n## ❌"))
            self.assertTrue(stream.getvalue().startswith("::error file="))

    def test_without_a_page(self) -> None:
        stream = io.StringIO()
        reporter = GitHubReporter(stream, {})
        reporter.finish(runs.summary())
        self.assertIn("::error", stream.getvalue())


if __name__ == "__main__":
    unittest.main()
