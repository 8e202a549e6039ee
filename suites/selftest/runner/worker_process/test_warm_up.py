"""Tests what a worker tells of its module's warm-up: which tests may have been it, and how long it took."""

from __future__ import annotations

import sys
import types
import unittest
from unittest import mock

from harness.outcomes import Status
from harness.record import TestRecord
from harness.runner.worker_process import warm_up
from harness.runner.worker_process.warm_up import MANY_MODULES, WarmUps, may_warm_up, warm_up_key
from suites.selftest.runner.runs import RunnerCase


def record(duration_s: float, status: Status = Status.PASSED) -> TestRecord:
    return TestRecord("m.T.test", status, duration_s)


def told(noted: TestRecord) -> float | None:
    """Returns the warm-up in a record of the module m."""
    seconds: float | None = noted.extra.get("fixtures_s", {}).get(warm_up_key("m"))
    return seconds


class DecisionTest(unittest.TestCase):
    """``WarmUps``: which tests are marked, and what the next one tells."""

    def setUp(self) -> None:
        """Has a clock that stands still."""
        patched = mock.patch.object(warm_up, "monotonic", return_value=1.0)
        self.clock = patched.start()
        self.addCleanup(patched.stop)

    def test_start(self) -> None:
        """What went before the first test counts, and not what goes before others."""
        warm_ups = WarmUps("m")
        self.clock.return_value = 1.5
        warm_ups.begin()
        self.clock.return_value = 9.0
        warm_ups.begin()
        warm_ups.noted(record(1.0))
        self.assertEqual(told(warm_ups.noted(record(1.0))), 0.5)

    def test_first(self) -> None:
        """The first test that is not skipped is marked; the next tells how much longer that took, once."""
        for follower, wanted in ((record(0.5), 2.0), (record(0.5, Status.FAILED), 2.0), (record(2.5), None)):
            warm_ups = WarmUps("m")
            warm_ups.begin()
            with self.subTest(follower):
                self.assertEqual(warm_ups.noted(record(9.0, Status.SKIPPED)).extra, {})
                self.assertTrue(may_warm_up(warm_ups.noted(record(2.5))))
                self.assertEqual(warm_ups.noted(record(9.0, Status.SKIPPED)).extra, {})
                noted = warm_ups.noted(follower)
                self.assertEqual((told(noted), may_warm_up(noted)), (wanted, False))
                self.assertEqual(warm_ups.noted(record(0.1)).extra, {})

    def test_imports(self) -> None:
        """A later test that imports so many modules is marked, too; one less does not count."""
        for number, marked in ((MANY_MODULES - 1, False), (MANY_MODULES, True)):
            modules = {f"warm_up_{n}": types.ModuleType(f"warm_up_{n}") for n in range(number)}
            warm_ups = WarmUps("m")
            warm_ups.begin()
            for duration_s in (1.0, 0.5):
                warm_ups.noted(record(duration_s))
            warm_ups.begin()
            with self.subTest(number), mock.patch.dict(sys.modules, modules):
                self.assertEqual(may_warm_up(warm_ups.noted(record(3.0))), marked)
                warm_ups.begin()
                self.assertEqual(told(warm_ups.noted(record(1.0))), 2.5 if marked else None)


class RecordTest(RunnerCase):
    """Records of a run, by unittest and by pytest."""

    def test_records(self) -> None:
        """The first test, and one that imports many modules, is marked; the one behind it tells the price."""
        package = self.directory / "many"
        package.mkdir()
        (package / "__init__.py").touch()
        for number in range(MANY_MODULES):
            (package / f"m{number}.py").touch()
        slow = "[sum(range(10**6)) for _ in range(40)]"
        imports = f"[__import__(f'many.m{{n}}') for n in range({MANY_MODULES})]"
        self.write("test_one", f"""
            class T(unittest.TestCase):
                def test_a(self): {slow}
                def test_b(self): pass
                def test_c(self): {imports}
                def test_d(self): {imports}
        """)  # fmt: skip
        self.write("test_two", f"""
            def test_a(): {slow}
            def test_b(): pass
            def test_c(): {imports}
            def test_d(): {imports}
        """)  # fmt: skip
        run = self.run_tests("test_one.py", "test_two.py", "--jobs=1")
        self.assertEqual(set(run.statuses.values()), {"passed"}, run.out)
        for module in ("test_one", "test_two"):
            records = {r.id[-1]: r for r in run.records if r.id.startswith(module)}
            with self.subTest(module):
                self.assertEqual([name for name in "abcd" if may_warm_up(records[name])], ["a", "c"])
                took_s = records["a"].duration_s - records["b"].duration_s
                self.assertGreaterEqual(records["b"].extra["fixtures_s"][warm_up_key(module)], took_s - 1e-6)


if __name__ == "__main__":
    unittest.main()
