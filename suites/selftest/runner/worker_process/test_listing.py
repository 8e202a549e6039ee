"""Tests listing a module's tests: imports that fail or skip, and the unit of each test."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import types
import unittest
from pathlib import Path
from typing import ClassVar
from unittest import mock

from harness import (
    MultiProcContinuousTest,
    MultiProcessTestCase,
    spawn_threads_and_init_comms,
)
from harness.requirements.merged import Requirements
from harness.runner.scheduling.time_limits import TimeLimits
from harness.runner.worker_process import listing
from harness.settings import EnvVar
from suites.selftest.runner import runs


class ModuleTest(unittest.TestCase):
    """``list_module``, on modules that the test writes."""

    def setUp(self) -> None:
        """Makes a directory from which modules can be imported until the test is over."""
        self.directory = runs.new_directory(self)
        before = set(sys.modules)
        sys.path.insert(0, str(self.directory))
        self.addCleanup(sys.path.remove, str(self.directory))
        self.addCleanup(lambda: [sys.modules.pop(name) for name in set(sys.modules) - before])

    def listed(self, name: str, body: str) -> listing.Listing:
        """Writes a module and lists its tests."""
        runs.write_module(self.directory, name, body)
        importlib.invalidate_caches()
        return listing.list_module(name)

    def test_tests(self) -> None:
        """Units, tests and ids agree, and units are in unittest's order."""
        found = self.listed(
            "made_of_two",
            """
            class B(unittest.TestCase):
                def test_2(self): pass
                def test_1(self): pass
            class A(unittest.TestCase):
                def test_3(self): pass
            """,
        )
        ids = ["made_of_two.A.test_3", "made_of_two.B.test_1", "made_of_two.B.test_2"]
        self.assertEqual([unit.id for unit in found.units], ids)
        self.assertEqual({i: test.id() for i, test in found.tests.items()}, {i: i for i in ids})
        self.assertEqual((found.duplicates, found.error, found.skipped), ([], "", None))
        self.assertIn(str(self.directory / "made_of_two.py"), found.files)

    def test_import_that_raises(self) -> None:
        """Whatever an import raises is the error, as a traceback that begins in the module."""
        bodies = "import no_such_module", "1 / 0", "sys.exit(3)", "raise KeyboardInterrupt"
        for number, raised in enumerate(bodies):
            with self.subTest(raised):
                name = f"made_to_raise_{number}"
                found = self.listed(name, raised)
                first, frame = found.error.splitlines()[:2]
                self.assertEqual(first, "Traceback (most recent call last):")
                self.assertIn(f"{name}.py", frame)
                self.assertEqual((found.units, found.skipped), ([], None))

    def test_module_that_is_not_there(self) -> None:
        """A module that does not exist is an error without frames of the importer."""
        error = listing.list_module("made_by_nobody").error
        self.assertIn("No module named 'made_by_nobody'", error)
        self.assertNotIn("importlib", error)

    def test_module_that_skips(self) -> None:
        """A module that raises SkipTest is skipped with its reason, or with a text for no reason."""
        for number, (raised, reason) in enumerate((("('not here')", "not here"), ("", "no reason given"))):
            with self.subTest(raised):
                found = self.listed(f"made_to_skip_{number}", f"raise unittest.SkipTest{raised}")
                self.assertEqual((found.skipped, found.error, found.units), (reason, "", []))

    def test_module_that_exits_under_the_drop_in(self) -> None:
        """One that ends by sys.exit(0) is skipped, by pytest too; other exits are errors."""
        needs_pytest = "import pytest\n@pytest.mark.skip\ndef test(): pass\nsys.exit({code})"
        with mock.patch.dict(os.environ, {EnvVar.DROP_IN: "1"}):
            for number, body in enumerate(("sys.exit({code})", needs_pytest)):
                with self.subTest(body):
                    found = self.listed(f"made_to_exit_{number}", body.format(code=0))
                    self.assertIn(f"sys.exit(0) in made_to_exit_{number}.py:", found.skipped or "")
                    self.assertEqual((found.error, found.refusal, found.units), ("", "", []))
                    found = self.listed(f"made_to_fail_{number}", body.format(code=1))
                    self.assertIsNone(found.skipped)
                    self.assertIn("SystemExit", found.error + found.refusal)

    def test_duplicates(self) -> None:
        """An id is a duplicate if different tests share it, and is listed once in any case."""
        body = """
            class A(unittest.TestCase):
                def test(self): pass
            def load_tests(loader, tests, pattern):
                one, other = A("test"), A("test")
                {change}
                return unittest.TestSuite([one, unittest.TestSuite([other, A("test")])])
            """
        for number, (change, duplicates) in enumerate((("pass", []), ("other.value = 1", ["A.test"]))):
            with self.subTest(change):
                name = f"made_twice_{number}"
                found = self.listed(name, body.format(change=change))
                self.assertEqual(found.duplicates, [f"{name}.{each}" for each in duplicates])
                self.assertEqual([unit.id for unit in found.units], [f"{name}.A.test"])

    def test_imported(self) -> None:
        """A unit says if its module has the test's class from another module."""
        self.listed("made_home", "class A(unittest.TestCase):\n    def test(self): pass\n")
        found = self.listed("made_guest", "from made_home import A\n")
        (unit,) = found.units
        self.assertEqual((unit.id, unit.module, unit.imported), ("made_home.A.test", "made_guest", True))
        (unit,) = listing.list_module("made_home").units
        self.assertFalse(unit.imported)

    def test_files(self) -> None:
        """The list depends on the module, its classes' bases and helpers, not on packages or test modules."""
        runs.write_module(self.directory, "made_helper", "VALUES = [1, 2]\n")
        runs.write_module(self.directory, "test_made_other", "")
        found = self.listed(
            "made_dependent",
            """
            import json, made_helper, test_made_other
            from harness import TestCase
            class A(TestCase):
                def test(self): pass
            """,
        )
        own = {Path(file).name for file in found.files if Path(file).parent == self.directory}
        self.assertEqual(own, {"made_dependent.py", "made_helper.py"})
        self.assertIn(sys.modules["harness.testcase"].__file__, found.files)
        self.assertNotIn(sys.modules["json"].__file__, found.files)


class UnitTest(unittest.TestCase):
    """``unit_of``, the unit of a loaded test."""

    def test_ranks_and_slots(self) -> None:
        """The world size is the demand, and a property that raises gives no world size."""

        class Ranks(unittest.TestCase):
            world_size: ClassVar[int] = 4

            def test_x(self) -> None:
                """Does nothing."""

        class Broken(Ranks):
            @property
            def world_size(self) -> int:  # type: ignore[override]  # as test classes do
                raise RuntimeError("not yet")

        module = sys.modules[__name__]
        unit = listing.unit_of(Ranks("test_x"), module)
        self.assertEqual((unit.demand.ranks, unit.demand.cpu_slots), (4, 4 // listing.RANKS_A_SLOT))
        self.assertEqual(listing.unit_of(Broken("test_x"), module).demand.ranks, 1)
        self.assertEqual(Path(unit.file), Path(__file__))
        self.assertGreater(unit.line, 100)

    def test_who_keeps_the_deadline(self) -> None:
        """A test with ranks of any kind is supervised, and the watchdog waits longer for it."""

        class OneRank(MultiProcessTestCase):
            world_size = 1

            def test_x(self) -> None:
                """Does nothing."""

        class Unset(MultiProcContinuousTest):
            def test_x(self) -> None:
                """Does nothing."""

        class Plain(unittest.TestCase):
            def test_x(self) -> None:
                """Does nothing."""

            @spawn_threads_and_init_comms(timeout=7)
            def test_threads(self) -> None:
                """Does nothing."""

        module, limits = sys.modules[__name__], TimeLimits(100.0, margin_s=20.0)
        for test, watchdog_s in (
            (OneRank("test_x"), 120.0),
            (Unset("test_x"), 120.0),
            (Plain("test_threads"), 27.0),
            (Plain("test_x"), 100.0),
        ):
            with self.subTest(test=test):
                self.assertEqual(limits.of(listing.unit_of(test, module)), watchdog_s)

    def test_fixtures(self) -> None:
        """A unit has the keys of the fixtures that its test needs, the module's first."""
        module = types.ModuleType("made_up")
        module.setUpModule = lambda: None  # type: ignore[attr-defined]  # what unittest looks for
        sys.modules["made_up"] = module
        self.addCleanup(sys.modules.pop, "made_up")

        class Fixture(unittest.TestCase):
            @classmethod
            def setUpClass(cls) -> None:
                """Makes the class have a fixture."""

            def test_x(self) -> None:
                """Does nothing."""

        Fixture.__module__, Fixture.__qualname__ = "made_up", "Fixture"
        unit = listing.unit_of(Fixture("test_x"), module)
        self.assertEqual(unit.fixtures, ("made_up", "made_up.Fixture"))
        plain = listing.unit_of(unittest.FunctionTestCase(lambda: None), sys.modules[__name__])
        self.assertEqual(plain.fixtures, ())


class PartsTest(unittest.TestCase):
    """The functions that find a test's demand, source and fixtures."""

    def test_flatten(self) -> None:
        """Nested suites become one sequence in order, without what is neither a suite nor a test."""
        tests = [unittest.FunctionTestCase(lambda: None) for _ in range(3)]
        nested = [tests[0], [[tests[1]], (), None], iter([tests[2]])]
        self.assertEqual([id(t) for t in listing.flatten(nested)], [id(t) for t in tests])

    def test_demand(self) -> None:
        """CPU slots are what the test asks for, else one for every few ranks, and at least one."""
        few = listing.RANKS_A_SLOT
        for ranks, own, slots in ((1, None, 1), (few, None, 1), (few + 1, None, 2), (few, 3, 3), (few, 0, 1)):
            with self.subTest(ranks=ranks, own=own):
                demand = listing.demand_of(Requirements(cpu_slots=own), ranks)
                self.assertEqual((demand.ranks, demand.cpu_slots), (ranks, slots))
        demand = listing.demand_of(Requirements(memory_mb=100, exclusive=True), 1)
        self.assertEqual((demand.memory_mb, demand.exclusive), (100, True))
        for own, of_target, wanted in ((0, 0, 0), (0, 4, 4), (6, 4, 6)):
            demand = listing.demand_of(Requirements(min_gpus=own), 4, of_target)
            self.assertEqual(demand.accelerators, wanted)

    def test_ranks(self) -> None:
        """A required world size goes before the class's, and what is no positive integer counts as 1."""

        class Sized(unittest.TestCase):
            world_size: object = 4

        for size, required, ranks in ((4, None, 4), (4, 2, 2), (0, None, 1), ("4", None, 1)):
            with self.subTest(size=size, required=required):
                Sized.world_size = size
                self.assertEqual(listing.ranks_of(Sized("run"), Requirements(world_size=required)), ranks)

    def test_source(self) -> None:
        """The source is the innermost function's, and a method without code has none."""

        def plain() -> None:
            """Does nothing."""

        @functools.wraps(plain)
        def decorated() -> None:
            """Does nothing."""

        looped = functools.wraps(plain)(lambda: None)
        looped.__wrapped__ = looped
        test = types.SimpleNamespace(plain=plain, decorated=decorated, looped=looped, builtin=len)
        line = plain.__code__.co_firstlineno
        for name, wanted in (
            ("plain", (__file__, line)),
            ("decorated", (__file__, line)),
            ("builtin", ("", 0)),
            ("absent", ("", 0)),
        ):
            with self.subTest(name):
                self.assertEqual(listing.source_of(test, name), wanted)  # type: ignore[arg-type]  # any object
        file, _ = listing.source_of(test, "looped")  # type: ignore[arg-type]  # as above
        self.assertEqual(os.path.basename(file), os.path.basename(__file__), "a cycle of __wrapped__ ends")


if __name__ == "__main__":
    unittest.main()
