"""From options to tests, where a run before says which: what has gone, and what stands for it."""

from __future__ import annotations

import unittest
from collections.abc import Mapping
from pathlib import Path

from harness.runner.discovery import ModuleTests
from harness.runner.options import parse
from harness.runner.selecting import Selected, Wanted, choose, wanted
from harness.runner.selection import resolve
from harness.runner.unit import FAILED_MODULE, SKIPPED_MODULE, of_id
from suites.selftest.runner import runs

FINE, BROKEN = "m.test_fine", "m.test_broken"
FAILS = FAILED_MODULE + BROKEN


def module(name: str, *tests: str, error: str = "", skipped: str | None = None) -> ModuleTests:
    """A module with these tests, ``Class.method``."""
    units = tuple(of_id(f"{name}.{test}", name, slow="slow" in test) for test in tests)
    return ModuleTests(name, units, error=error, skipped=skipped)


class AgainTest(unittest.TestCase):
    """Tests of a run before."""

    def choose(
        self, ids: list[str], found: Mapping[str, ModuleTests], *argv: str, done: str = ""
    ) -> Selected:
        """What is chosen of these ids."""
        options = parse(argv)
        want = Wanted(resolve(options.names, dict.fromkeys(found, Path())), tuple(found), tuple(ids))
        return choose(want, found, options, options.slow, lambda test_id: test_id != done)

    def test_a_module_that_broke(self) -> None:
        """It stands for the tests that it had, once, whatever -k says; the others run."""
        found = {FINE: module(FINE, "T.test_1"), BROKEN: module(BROKEN, error="SyntaxError: x")}
        ids = [f"{BROKEN}.T.test_1", f"{FINE}.T.test_1", f"{BROKEN}.T.test_2"]
        for option, chosen in (
            ("--last-failed", [f"{FINE}.T.test_1", FAILS]),
            ("--resume", [f"{FINE}.T.test_1", FAILS]),
            ("-k=other", [FAILS]),
        ):
            with self.subTest(option=option):
                selected = self.choose(ids, found, option)
                self.assertEqual([unit.id for unit in selected.units], chosen)
                self.assertEqual(([r.id for r in selected.ready], selected.gone), ([FAILS], ()))

    def test_a_module_that_skips_itself_now(self) -> None:
        """It stands for its tests too."""
        selected = self.choose([f"{FINE}.T.test_1"], {FINE: module(FINE, skipped="no GPU")})
        self.assertEqual([unit.id for unit in selected.units], [SKIPPED_MODULE + FINE])
        self.assertEqual([record.reason for record in selected.ready], ["no GPU"])

    def test_a_test_of_no_module_that_is_known(self) -> None:
        """It may be from any that broke, as a test is that is inherited from a helper."""
        found = {FINE: module(FINE, skipped="no GPU"), BROKEN: module(BROKEN, error="x")}
        selected = self.choose(["helper.Base.test_1"], found)
        self.assertEqual([unit.id for unit in selected.units], [FAILS])

    def test_a_module_that_was_mended(self) -> None:
        """All of its tests are run, as far as the options of the run would have taken them."""
        found = {BROKEN: module(BROKEN, "T.test_1", "T.test_slow", "U.test_1")}
        for argv, names in (
            ([], ["T.test_1", "U.test_1"]),
            (["--slow", "-k", "slow"], ["T.test_slow"]),
            (["test_broken.U"], ["U.test_1"]),
        ):
            with self.subTest(argv=argv):
                selected = self.choose([FAILS], found, *argv)
                self.assertEqual([unit.id for unit in selected.units], [f"{BROKEN}.{n}" for n in names])

    def test_gone(self) -> None:
        """A test without a trace is told of, unless it had finished; what had is not run for its module."""
        found = {FINE: module(FINE, "T.test_1"), BROKEN: module(BROKEN, error="x")}
        selected = self.choose([f"{FINE}.T.test_9", f"{FINE}.T.test_1"], found)
        self.assertEqual(
            ([u.method for u in selected.units], selected.gone), (["test_1"], (f"{FINE}.T.test_9",))
        )
        for name in (f"{FINE}.T.test_9", f"{BROKEN}.T.test_1"):
            selected = self.choose([name], found, done=name)
            self.assertEqual((selected.units, selected.gone), ((), ()))


class WantedTest(unittest.TestCase):
    """What names come to before anything is imported."""

    def setUp(self) -> None:
        self.root = runs.new_directory(self)
        for name in (
            "suites/test_known.py",
            "test_here.py",
            "c/test_here.py",
            "c/test_far.py",
            "d/suites/test_known.py",
        ):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).touch()
        for name in ("suites", "d/suites"):
            (self.root / name / "__init__.py").touch()

    def test_files(self) -> None:
        """Each module's file is the one that was meant; a path names it where its name leads to another."""
        table = (
            (".", "suites", "suites/test_known.py", None),
            (".", "suites/test_known.py", "suites/test_known.py", None),
            (".", "test_here", "test_here.py", None),
            (".", "test_here.py", "test_here.py", None),
            (".", "c/test_here.py", "c/test_here.py", "c/test_here.py"),
            (".", "c/test_far.py", "c/test_far.py", "c/test_far.py"),
            ("c", "test_far.py", "c/test_far.py", None),
            ("c", "../test_here.py", "test_here.py", "../test_here.py"),
            ("d", "suites.test_known", "d/suites/test_known.py", None),
            ("d", "../suites/test_known.py", "suites/test_known.py", "../suites/test_known.py"),
        )
        for cwd, name, source, path in table:
            with self.subTest(cwd=cwd, name=name):
                want = wanted(parse([name]), self.root, self.root / cwd, None)
                (module,) = want.modules
                self.assertEqual(want.sources, {module: self.root / source})
                self.assertEqual(want.files, {module: path} if path else {})


if __name__ == "__main__":
    unittest.main()
