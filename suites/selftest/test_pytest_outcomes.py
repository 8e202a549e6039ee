"""Tests recognising pytest's exceptions without importing it, and what they become in unittest's tests."""

from __future__ import annotations

import subprocess
import sys
import unittest
from collections.abc import Callable

import pytest

from harness import pytest_outcomes
from suites.selftest.runner.runs import RunnerCase


class RecognitionTest(unittest.TestCase):
    """The predicates on exceptions."""

    def test_table(self) -> None:
        """Each exception of pytest's is recognised for what it means, and others are for nothing."""
        rows: tuple[tuple[Callable[[], object], set[str]], ...] = (
            (lambda: pytest.skip("a test"), {"is_skip"}),
            (lambda: pytest.skip("a module", allow_module_level=True), {"is_skip", "skips_module"}),
            (lambda: pytest.importorskip("made_by_nobody"), {"is_skip", "skips_module"}),
            (lambda: pytest.fail("no"), {"is_failure"}),
            (lambda: pytest.xfail("known"), {"is_expected"}),
            (lambda: pytest.exit("away"), set()),
            (lambda: self.fail("no"), set()),
            (lambda: self.skipTest("no"), set()),
        )
        predicates = ("is_skip", "skips_module", "is_failure", "is_expected")
        for number, (act, expected) in enumerate(rows):
            with self.subTest(number):
                try:
                    act()
                except BaseException as error:  # noqa: BLE001 - pytest's are no Exceptions
                    met = {name for name in predicates if getattr(pytest_outcomes, name)(error)}
                    self.assertEqual(met, expected)
                else:
                    self.fail("nothing was raised")

    def test_without_pytest(self) -> None:
        """The module imports no pytest, and nothing is pytest's where that is not imported."""
        program = (
            "import sys; from harness import pytest_outcomes as o; "
            "assert not o.is_skip(ValueError()) and not o.is_failure(ValueError()); "
            "assert not [m for m in sys.modules if 'pytest' in m and not m.startswith('harness')]"
        )
        subprocess.run([sys.executable, "-c", program], check=True)


class HelperTest(RunnerCase):
    """Helpers that call pytest's functions in tests that unittest runs."""

    def test_verdicts(self) -> None:
        """A skip, a failure and an expected failure of a helper are what they mean, as by pytest."""
        (self.directory / "helper.py").write_text(
            "import pytest\n"
            "def skips(): pytest.skip('not here')\n"
            "def fails(): pytest.fail('no')\n"
            "def expects(): pytest.xfail('known')\n"
        )
        self.write(
            "test_helped",
            """
            import helper
            class T(unittest.TestCase):
                def test_skip(self): helper.skips()
                def test_fail(self): helper.fails()
                def test_expect(self): helper.expects()
            """,
        )
        ran = self.run_tests("test_helped")
        expected = {"test_skip": "skipped", "test_fail": "failed", "test_expect": "expected failure"}
        self.assertEqual(ran.statuses, expected)
        self.assertEqual(ran.of("test_skip").reason, "not here")
