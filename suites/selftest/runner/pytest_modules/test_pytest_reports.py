"""Tests the translation of pytest's reports, as a table of the reports that pytest makes of a test."""

from __future__ import annotations

import sys
import unittest
from collections.abc import Generator

import pytest

from harness.outcomes import Status
from harness.record import TestRecord
from harness.runner.pytest_modules.pytest_reports import add_report, keep_error
from harness.runner.pytest_modules.pytest_session import QuietPlugin
from harness.runner.worker_process.unittest_result import RunningTest
from suites.selftest.runner import runs

HEADER = """
import pytest, unittest
@pytest.fixture
def bad(): raise RuntimeError("no fixture")
@pytest.fixture
def bad_end():
    yield
    raise RuntimeError("no end")
"""
# Bodies of ``test_it``, the status, and what the reason has.
ROWS = (
    ("def test_it(): pass", Status.PASSED, ""),
    ("def test_it(): assert [1] == [2]", Status.FAILED, "AssertionError: assert [1] == [2]"),
    ("def test_it(): raise ValueError('odd')", Status.FAILED, "ValueError: odd"),
    ("def test_it(): pytest.fail('because')", Status.FAILED, "because"),
    ("def test_it(bad): pass", Status.ERROR, "setup: RuntimeError: no fixture"),
    ("def test_it(bad_end): pass", Status.ERROR, "teardown: RuntimeError: no end"),
    ("def test_it(bad_end): assert False", Status.ERROR, "assert False"),
    ("def test_it(nobody): pass", Status.ERROR, "setup:"),
    ("def test_it(): pytest.skip('later')", Status.SKIPPED, "later"),
    ("def test_it(): raise unittest.SkipTest('later')", Status.SKIPPED, "later"),
    ("@pytest.mark.skip(reason='off')\ndef test_it(): pass", Status.SKIPPED, "off"),
    ("@pytest.mark.skipif(True, reason='off')\ndef test_it(): pass", Status.SKIPPED, "off"),
    ("@pytest.mark.skip(reason='off')\ndef test_it(bad_end): pass", Status.SKIPPED, "off"),
    ("def test_it(): pytest.xfail('known')", Status.XFAILED, "known"),
    ("@pytest.mark.xfail(reason='known')\ndef test_it(): assert 0", Status.XFAILED, "known"),
    ("@pytest.mark.xfail(reason='known')\ndef test_it(bad): pass", Status.XFAILED, "known"),
    ("@pytest.mark.xfail(run=False)\ndef test_it(): assert 0", Status.XFAILED, "[NOTRUN]"),
    ("@pytest.mark.xfail(raises=KeyError)\ndef test_it(): assert 0", Status.FAILED, "assert 0"),
    ("@pytest.mark.xfail(reason='known')\ndef test_it(): pass", Status.PASSED, ""),
    ("@pytest.mark.xfail(strict=True)\ndef test_it(): pass", Status.XPASSED, "expected failure"),
    ("class T(unittest.TestCase):\n def test_it(self): self.fail('x')", Status.FAILED, "x"),
    ("class T(unittest.TestCase):\n def test_it(self): self.skipTest('x')", Status.SKIPPED, "x"),
    ("class T(unittest.TestCase):\n @unittest.skip('x')\n def test_it(self): pass", Status.SKIPPED, "x"),
    (
        "class T(unittest.TestCase):\n @unittest.expectedFailure\n def test_it(self): assert 0",
        Status.XFAILED,
        "",
    ),
    (
        "class T(unittest.TestCase):\n @unittest.expectedFailure\n def test_it(self): pass",
        Status.XPASSED,
        "",
    ),
    (
        "class T(unittest.TestCase):\n @classmethod\n def setUpClass(cls): 1 / 0\n def test_it(self): pass",
        Status.ERROR,
        "setup: ZeroDivisionError",
    ),
)
SUBTESTS = """
class T(unittest.TestCase):
    def test_it(self):
        for n in range(4):
            with self.subTest("some", n=n):
                if n == 2: self.skipTest("two")
                self.assertNotEqual(n, 1)
"""


class Translator(QuietPlugin):
    """Translates the reports of all tests of a session into one ``RunningTest``."""

    def __init__(self) -> None:
        self.running = RunningTest("test_it")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keeps the exception."""
        report = yield
        keep_error(report, call)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds the report."""
        self.error = add_report(self.running, report)
        assert self.error is None or not any(value is self.error for value in vars(report).values())


class ReportTest(unittest.TestCase):
    """``add_report``, on what pytest reports of a file."""

    def record(self, name: str, body: str) -> TestRecord:
        """Runs a file with one test by pytest, and returns the test's record."""
        directory = runs.new_directory(self)
        (directory / f"{name}.py").write_text(f"{HEADER}{body}\n")
        plugin = Translator()
        pytest.main(["-q", "-p", "no:cacheprovider", "--capture=no", str(directory)], plugins=[plugin])
        self.addCleanup(sys.modules.pop, name, None)
        return plugin.running.record()

    def test_table(self) -> None:
        """Each report has its status and reason; a failure has pytest's text."""
        for number, (body, status, reason) in enumerate(ROWS):
            with self.subTest(body):
                record = self.record(f"test_made_report_{number}", body)
                self.assertEqual(record.status, status)
                self.assertIn(reason, f"{record.reason}\n{record.details}")
                if status is Status.FAILED:
                    self.assertRegex(record.details, r"(?m)^E   ")

    def test_mark_that_is_not_strict(self) -> None:
        """A test that passes in spite of the mark passes, with a warning that says so."""
        record = self.record("test_made_lenient", "@pytest.mark.xfail(reason='known')\ndef test_it(): pass")
        self.assertEqual(record.warnings, ("passed, but is marked xfail: known",))

    def test_subtests(self) -> None:
        """Sub-tests are itemised as by unittest."""
        record = self.record("test_made_subtests", SUBTESTS)
        self.assertEqual((record.status, record.subtests_run), (Status.FAILED, 4))
        described = [(s.description, s.status) for s in record.subtests]
        # Python 3.10 tells what was skipped first.
        self.assertCountEqual(described, [("[some] (n=1)", Status.FAILED), ("[some] (n=2)", Status.SKIPPED)])

    def test_mistake(self) -> None:
        """A mistake in no line of the user is told by its text alone, without pytest's source lines."""
        body = (
            "import harness\nclass T(harness.MultiProcessTestCase):\n world_size = 2\n"
            " async def test_it(self): pass"
        )
        record = self.record("test_made_mistake", body)
        self.assertEqual(record.status, Status.FAILED)
        self.assertRegex(record.details, r"^harness\.errors\.UsageError: test_it is an async def, ")

    def test_log(self) -> None:
        """What a failing test has logged is below its failure."""
        record = self.record(
            "test_made_log", "import logging\ndef test_it():\n logging.error('look'); assert 0"
        )
        self.assertIn("look", record.details)
