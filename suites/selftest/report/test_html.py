"""Self-tests of harness.report.html: the page needs no other file, has all data, and escapes all text."""

from __future__ import annotations

import json
import re
import tempfile
import unittest
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest import mock

from harness.outcomes import Status
from harness.record import RankRecord
from harness.report import html
from harness.report.base import RunInfo
from harness.report.html import MAX_OUTPUT_CHARACTERS, HtmlReporter, html_text, page_data
from harness.report.summary import summarise
from suites.selftest.report import runs


class Page(HTMLParser):
    """Parses a page into its tags, the attributes that could load something, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [v for name, v in attrs if name in ("src", "href", "srcset", "action", "data") and v]
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script":
            self.scripts[-1] += data


def by_name(name: str) -> dict[str, Any]:
    data = page_data(runs.info(), runs.summary())
    return next(t for t in data["tests"] if t["name"] == name)


class PageTest(unittest.TestCase):
    """``html_text``: the whole page."""

    def setUp(self) -> None:
        self.text = html_text(runs.info(), runs.summary())
        self.page = Page(self.text)

    def test_stands_alone(self) -> None:
        """The page loads nothing from elsewhere."""
        self.assertEqual(self.page.loads, ["data:,"])
        self.assertNotRegex(self.text, r"https?://|@import|url\(")

    def test_foreign_text_stays_text(self) -> None:
        self.assertEqual(len(self.page.scripts), 2)
        self.assertNotIn("<script>alert", self.text)

    def test_data_is_whole(self) -> None:
        """The script's data can be parsed and is what ``page_data`` returns."""
        self.assertEqual(json.loads(self.page.scripts[0]), page_data(runs.info(), runs.summary()))

    def test_says_the_same_without_a_script(self) -> None:
        """Counts and failures are readable without JavaScript."""
        plain = self.text[self.text.index("<noscript>") : self.text.index("</noscript>")]
        self.assertEqual(plain.count("<h3>"), 6)
        self.assertIn("meanwhile: ranks 0, 2, 3 wait in all_reduce #5", plain)

    def test_head(self) -> None:
        self.assertIn("<title>4 passed, 6 failed, 1 skipped - Test run on builder</title>", self.text)
        self.assertIn('<code id="rerun">python run_tests.py --seed 7 suites.c10d', self.text)
        self.assertIn("suites/timings.json is broken: line 3", self.text)

    def test_empty_run(self) -> None:
        text = html_text(RunInfo(), summarise([]))
        self.assertIn("0 passed, 0 failed, 0 skipped", text)
        self.assertNotIn("Rerun what failed", text)

    def test_every_status_has_a_colour_and_a_place(self) -> None:
        from harness.outcomes import Status

        style, script = re.search(r"<style>(.*?)</style>", self.text, re.DOTALL), self.page.scripts[1]
        assert style is not None
        for status in Status:
            with self.subTest(status):
                self.assertIn(f".s-{status.value.replace(' ', '-')}", style[1])
                self.assertIn(f'"{status.value}"', script)

    def test_file(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "report.html"
            reporter = HtmlReporter(path)
            reporter.start(runs.info())
            reporter.finish(runs.summary())
            self.assertTrue(path.read_text(encoding="utf-8").endswith("</html>\n"))


class DataTest(unittest.TestCase):
    """``page_data``: the data for the page's script."""

    def test_failing_rank_in_full(self) -> None:
        attempt = by_name("test_sum")["attempts"][0]
        self.assertEqual([r["status"] for r in attempt["ranks"]], ["ended", "failed", "ended", "ended"])
        self.assertEqual(attempt["ranks"][0]["log"], "/tmp/run/rank0.log")
        self.assertEqual(attempt["ranks"][0]["collectives"][-1], "all_reduce #5 of group 0 did not come back")
        self.assertIn("AssertionError: 3 != 4", attempt["ranks"][1]["error"])
        self.assertEqual(attempt["at"], 0.3)

    def test_passing_rank_in_short(self) -> None:
        rank = by_name("test_ok")["attempts"][0]["ranks"][0]
        self.assertEqual(set(rank), {"rank", "status", "seconds", "memory", "pid"})

    def test_picture(self) -> None:
        """Failed attempts of several ranks that called something have a picture, and no others."""
        data = page_data(runs.info(), runs.summary())
        with_one = {t["name"] for t in data["tests"] if any("picture" in a for a in t["attempts"])}
        self.assertEqual(with_one, {"test_sum", "test_crash", "test_hang"})
        self.assertIn('<svg class="calls"', by_name("test_sum")["attempts"][0]["picture"])

    def test_pictures_of_the_first_failures(self) -> None:
        """However many tests fail, the page stays small enough to open."""
        failed = next(r for r in runs.records() if r.id.endswith("test_sum"))
        many = [replace(failed, id=f"{failed.id}{n}") for n in range(5)]
        with mock.patch.object(html, "MAX_PICTURES_CHARACTERS", 12_000):
            tests = page_data(runs.info(), summarise(many))["tests"]
        pictures = [t["attempts"][0].get("picture", "") for t in tests]
        self.assertTrue(pictures[0])
        self.assertFalse(pictures[-1])

    def test_mode(self) -> None:
        """The page says which rank mode a test ran in, and nothing for a test without ranks."""
        with_ranks = replace(runs.records()[0], mode="pooled")
        without = replace(runs.records()[1], mode="")
        tests = page_data(runs.info(), summarise([with_ranks, without]))["tests"]
        self.assertEqual([test["attempts"][0].get("mode") for test in tests], ["pooled", None])

    def test_flaky(self) -> None:
        test = by_name("test_wait")
        self.assertTrue(test["flaky"])
        self.assertEqual([a["status"] for a in test["attempts"]], ["error", "passed"])

    def test_subtests(self) -> None:
        first = by_name("test_dtypes")["attempts"][0]["subtests"][0]
        self.assertEqual((first["name"], first["ranks"]), ("(dtype='f32')", [0, 1]))

    def test_long_output_is_cut(self) -> None:
        rank = RankRecord(0, Status.FAILED, output="x" * 10 * MAX_OUTPUT_CHARACTERS)
        record = replace(runs.records()[2], ranks=(rank,))
        shown = page_data(runs.info(), summarise([record]))["tests"][0]["attempts"][0]["ranks"][0]["output"]
        self.assertEqual(len(shown), MAX_OUTPUT_CHARACTERS + 4)

    def test_attempts_of_an_earlier_run_have_no_place_in_the_timeline(self) -> None:
        old = replace(runs.records()[0], started_at=runs.BEGAN_AT - 86400)
        tests = page_data(runs.info(), summarise([old, runs.records()[1]]))["tests"]
        self.assertEqual(["at" in t["attempts"][0] for t in tests], [False, True])


if __name__ == "__main__":
    unittest.main()
