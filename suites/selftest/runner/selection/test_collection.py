"""Tests the way from options to tests, also for tests of an earlier run that are gone or broken now."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from harness.errors import UsageError
from harness.runner.command_line.options import parse
from harness.runner.messages import Loaded
from harness.runner.scheduling.unit import BROKEN as IS_BROKEN
from harness.runner.scheduling.unit import of_id, of_module, to_json
from harness.runner.selection.collection import Selected, Wanted, choose, discover, names_to_type, wanted
from harness.runner.selection.discovery import Cache, ModuleTests
from harness.runner.selection.named_tests import resolve
from harness.runner.workers.zygote_owner import ZygoteOwner
from suites.selftest.runner import runs

FINE, BROKEN = "m.test_fine", "m.test_broken"
# What unittest and earlier releases call a module that does not import.
FAILS = f"unittest.loader._FailedTest.{BROKEN}"


def module(name: str, *tests: str, error: str = "", skipped: str | None = None) -> ModuleTests:
    """Returns a module with these tests, written as ``Class.method``."""
    units = tuple(of_id(f"{name}.{test}", name, slow="slow" in test) for test in tests)
    return ModuleTests(name, units, error=error, skipped=skipped)


class Played(ZygoteOwner):
    """Stands for the zygote's owner: it knows the results of imports, and notes which ones are asked for."""

    def __init__(self, *known: Loaded) -> None:
        self.known = {loaded.module: loaded for loaded in known}
        self.asked: list[str] = []

    def load(self, modules: Iterable[str], show_notice: Callable[[str], None]) -> Iterator[Loaded]:
        """Yields what is known of the modules, one after the other."""
        for module in modules:
            self.asked.append(module)
            yield self.known[module]


class DiscoverTest(unittest.TestCase):
    """``discover``: which modules are imported, and which tests come from the cache."""

    def setUp(self) -> None:
        self.root = runs.new_directory(self)
        for name in ("a", "b", "c"):
            (self.root / f"{name}.py").touch()
        self.sources = {name: self.root / f"{name}.py" for name in ("a", "b", "c")}
        self.want = Wanted((), ("a", "b", "c"), sources=self.sources)

    def loaded(self, name: str, *tests: str, dirty: bool = False) -> Loaded:
        units = [to_json(of_id(f"{name}.T.{test}", name)) for test in tests]
        return Loaded(name, units, dirty=dirty, files=[str(self.sources[name])])

    def discover(self, zygote_owner: ZygoteOwner, *, cached: bool) -> list[str]:
        found = discover(self.want, Cache(self.root / "cache", "key"), zygote_owner, print, cached=cached)
        return [unit.id for tests in found.values() for unit in tests.all_units]

    def test_a_run_does_not_go_by_the_cache(self) -> None:
        """A run imports afresh and finds tests that come from no source; later lists know them too."""
        before = [self.loaded("a", "test_1"), self.loaded("b", dirty=True), self.loaded("c")]
        self.assertEqual(self.discover(Played(*before), cached=True), ["a.T.test_1"])
        new = Played(self.loaded("a", "test_1", "test_2"), *before[1:])
        self.assertEqual(self.discover(new, cached=True), ["a.T.test_1"])
        self.assertEqual(new.asked, [])
        self.assertEqual(self.discover(new, cached=False), ["a.T.test_1", "a.T.test_2"])
        self.assertEqual(new.asked, ["b", "a", "c"], "what leaves threads running comes first")
        self.assertEqual(self.discover(Played(), cached=True), ["a.T.test_1", "a.T.test_2"])

    def test_another_file(self) -> None:
        """A module that is imported from another file is an error and is not kept in the cache."""
        other = Loaded("a", self.loaded("a", "test_1").units, files=[str(self.root / "other" / "a.py")])
        zygote_owner = Played(other, self.loaded("b"), self.loaded("c"))
        for _ in range(2):
            self.assertEqual(self.discover(zygote_owner, cached=True), ["a"])
        self.assertEqual(zygote_owner.asked, ["a", "b", "c", "a"])


class AgainTest(unittest.TestCase):
    """``choose``: the tests of an earlier run that run again."""

    def choose(
        self, ids: list[str], found: Mapping[str, ModuleTests], *argv: str, done: str = ""
    ) -> Selected:
        """Returns what is chosen of these ids."""
        options = parse(argv)
        want = Wanted(resolve(options.names, dict.fromkeys(found, Path())), tuple(found), tuple(ids))
        return choose(want, found, options, options.slow, lambda test_id: test_id != done)

    def test_a_module_that_broke(self) -> None:
        """A broken module stands once for the tests that it had, whatever -k says, and the others run."""
        found = {FINE: module(FINE, "T.test_1"), BROKEN: module(BROKEN, error="SyntaxError: x")}
        ids = [f"{BROKEN}.T.test_1", f"{FINE}.T.test_1", f"{BROKEN}.T.test_2"]
        for option, chosen in (
            ("--last-failed", [f"{FINE}.T.test_1", BROKEN]),
            ("--resume", [f"{FINE}.T.test_1", BROKEN]),
            ("-k=other", [BROKEN]),
        ):
            with self.subTest(option=option):
                selected = self.choose(ids, found, option)
                self.assertEqual([unit.id for unit in selected.units], chosen)
                self.assertEqual(([r.id for r in selected.ready], selected.gone), ([BROKEN], ()))

    def test_a_module_that_skips_itself_now(self) -> None:
        """A module that skips itself now stands for its tests."""
        selected = self.choose([f"{FINE}.T.test_1"], {FINE: module(FINE, skipped="no GPU")})
        self.assertEqual([unit.id for unit in selected.units], [FINE])
        self.assertEqual([record.reason for record in selected.ready], ["no GPU"])

    def test_a_test_of_no_module_that_is_known(self) -> None:
        """A test of no known module may belong to any broken one, if it is inherited from a helper."""
        found = {FINE: module(FINE, skipped="no GPU"), BROKEN: module(BROKEN, error="x")}
        selected = self.choose(["helper.Base.test_1"], found)
        self.assertEqual([unit.id for unit in selected.units], [BROKEN])

    def test_a_module_that_was_mended(self) -> None:
        """All tests of a mended module run, as far as the options allow."""
        found = {BROKEN: module(BROKEN, "T.test_1", "T.test_slow", "U.test_1")}
        for argv, names in (
            ([], ["T.test_1", "U.test_1"]),
            (["--slow", "-k", "slow"], ["T.test_slow"]),
            (["test_broken.U"], ["U.test_1"]),
        ):
            with self.subTest(argv=argv):
                for test_id in (BROKEN, FAILS):
                    selected = self.choose([test_id], found, *argv)
                    ids = [unit.id for unit in selected.units]
                    self.assertEqual(ids, [f"{BROKEN}.{name}" for name in names], test_id)

    def test_gone(self) -> None:
        """A test that is gone is reported unless it had finished, and a finished one is not run again."""
        found = {FINE: module(FINE, "T.test_1"), BROKEN: module(BROKEN, error="x")}
        selected = self.choose([f"{FINE}.T.test_9", f"{FINE}.T.test_1"], found)
        self.assertEqual(
            ([u.method for u in selected.units], selected.gone), (["test_1"], (f"{FINE}.T.test_9",))
        )
        for name in (f"{FINE}.T.test_9", f"{BROKEN}.T.test_1"):
            selected = self.choose([name], found, done=name)
            self.assertEqual((selected.units, selected.gone), ((), ()))


class WantedTest(unittest.TestCase):
    """``wanted``: the modules and files that names stand for, before any import."""

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
        """Each module's file is the one that was meant, and a path is kept if the name leads elsewhere."""
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

    def test_own_names(self) -> None:
        """In a project its own modules go before the suites' of the same name."""
        (self.root / "c" / "test_known.py").touch()
        for default, source in (("c",), "c/test_known.py"), ((), "suites/test_known.py"):
            with self.subTest(default=default):
                want = wanted(parse(["test_known.Case"]), self.root, self.root, None, default)
                (module,) = want.modules
                self.assertEqual(want.sources, {module: self.root / source})
                self.assertEqual(want.targets[0].test, "Case")

    def test_what_is_shown_leads_to_the_test(self) -> None:
        """The name that a run shows leads to the test, whatever directory, characters or class it has."""
        long = "x" * 300
        names = (
            *("N.test_1", "A.B.test_1", "N.test r", "test_here", f"N.test_{long}", "base.Common.test_1"),
            *("N.test_a/b", "N.test_load.py", "N.test_p[x.y=0.5]", "N.test_q[a::b]", f"N.test_/{long}"),
        )
        for cwd, module, path in (
            (".", "test_here", "test_here.py"),
            (".", "test_far", "c/test_far.py"),
            ("c", "test_far", "test_far.py"),
            ("c", "suites.test_known", "../suites/test_known.py"),
        ):
            for name in names:
                with self.subTest(cwd=cwd, path=path, name=name):
                    other = name.startswith("base.")
                    unit = of_id(name if other else f"{module}.{name}", module)
                    files = wanted(parse([path]), self.root, self.root / cwd, None).files
                    typed = names_to_type([unit], files).get(unit.id, unit.id)
                    want = wanted(parse([typed]), self.root, self.root / cwd, None)
                    self.assertEqual(want.modules, (module,))
                    self.assertEqual(want.sources[module], (self.root / cwd / path).resolve())
                    self.assertTrue(want.targets[0].takes(unit))
                    self.assertFalse(want.targets[0].takes(of_id(f"{module}.N.test_other", module)))

    def test_a_file_that_cannot_be_imported(self) -> None:
        """A file that cannot be imported is accepted, because its import will say so."""
        (self.root / "c" / "test_a.b.py").touch()
        want = wanted(parse(["c/test_a.b.py"]), self.root, self.root, None)
        self.assertEqual(want.modules, ("test_a.b",))

    def test_by_an_expression(self) -> None:
        """Modules that an expression rules out are not imported, and of the others it takes some tests."""
        modules = wanted(parse(["-E", "suite(test_known)"]), self.root, self.root, None).modules
        self.assertEqual(modules, ("suites.test_known",))
        self.assertEqual(wanted(parse(["-E", "suite(c10d)"]), self.root, self.root, None).modules, ())
        found = {"m": module("m", "T.test_a", "T.test_b", "T.test_slow")}
        for text, ids in (
            ("failed(last)", ["m.T.test_b"]),
            ("!failed(last)", ["m.T.test_a"]),
            ("slow | test(test_a)", ["m.T.test_a"]),
        ):
            with self.subTest(text):
                options = parse(["-E", text])
                chosen = choose(Wanted((), ("m",)), found, options, False, failed=lambda: ["m.T.test_b"])
                self.assertEqual([unit.id for unit in chosen.units], ids)
        self.assertEqual(chosen.slow, 1)

    def test_of_the_suites_alone(self) -> None:
        """With ``--suites`` a name or path is one of the suites, though the like is in this directory."""
        own = runs.new_directory(self)
        (own / "test_known").mkdir()
        (own / "test_known" / "test_own.py").touch()
        for name in ("test_known", "suites/test_known.py"):
            with self.subTest(name):
                want = wanted(parse(["--suites", name]), self.root, own, None)
                self.assertEqual(want.modules, ("suites.test_known",))
        path = "test_known/test_own.py"
        self.assertEqual(wanted(parse([path]), self.root, own, None).modules, ("test_own",))
        with self.assertRaises(UsageError):
            wanted(parse(["--suites", path]), self.root, own, None)

    def test_a_module_that_stands_in(self) -> None:
        """A module that stands in for its tests is named by its path, or as it is."""
        unit = of_module("test_x", IS_BROKEN)
        self.assertEqual(names_to_type([unit], {"test_x": "c/test_x.py"}), {unit.id: "c/test_x.py"})
        self.assertEqual(names_to_type([unit], {}), {})


if __name__ == "__main__":
    unittest.main()
