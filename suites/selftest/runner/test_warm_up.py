"""Tests that a record tells of its module's warm-up, by how many modules the test imported."""

from __future__ import annotations

import sys
import types
import unittest
from unittest import mock

from harness.runner.warm_up import MANY_MODULES, WarmUp, is_warm_up, warm_up_key
from suites.selftest.runner.runs import RunnerCase


class DecisionTest(unittest.TestCase):
    """``WarmUp``: from so many modules on."""

    def test_number_of_modules(self) -> None:
        """One less is no warm-up."""
        for number, wanted in ((MANY_MODULES - 1, {}), (MANY_MODULES, {"warm up m": 2.5})):
            modules = {f"warm_up_{n}": types.ModuleType(f"warm_up_{n}") for n in range(number)}
            warm_up = WarmUp()
            with self.subTest(number), mock.patch.dict(sys.modules, modules):
                self.assertEqual(warm_up.seconds("m", 2.5), wanted)

    def test_key(self) -> None:
        """The key is known again, and no module's import or class is taken for it."""
        self.assertTrue(is_warm_up(warm_up_key("m")))
        self.assertFalse(any(map(is_warm_up, ("m", "m.T", "import m"))))


class RecordTest(RunnerCase):
    """Records of a run, by unittest and by pytest."""

    def test_records(self) -> None:
        """The first test that imports them has its duration as the module's warm-up, others have none."""
        package = self.directory / "many"
        package.mkdir()
        (package / "__init__.py").touch()
        for number in range(MANY_MODULES):
            (package / f"m{number}.py").touch()
        imports = f"[__import__(f'many.m{{n}}') for n in range({MANY_MODULES})]"
        self.write("test_one", f"""
            class T(unittest.TestCase):
                def test_a(self): pass
                def test_b(self): {imports}
                def test_c(self): {imports}
        """)  # fmt: skip
        self.write("test_two", f"""
            def test_a(): pass
            def test_b(): {imports}
            def test_c(): {imports}
        """)  # fmt: skip
        run = self.run_tests("test_one.py", "test_two.py", "--jobs=1")
        self.assertEqual(set(run.statuses.values()), {"passed"}, run.out)
        for module in ("test_one", "test_two"):
            key = warm_up_key(module)
            records = {r.id[-1]: r for r in run.records if r.id.startswith(module)}
            seconds = {name: r.extra.get("fixtures_s", {}).get(key) for name, r in records.items()}
            with self.subTest(module):
                self.assertEqual(seconds, {"a": None, "b": records["b"].duration_s, "c": None})


if __name__ == "__main__":
    unittest.main()
