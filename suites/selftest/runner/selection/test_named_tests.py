"""Tests the way from names and patterns to modules and tests, and the errors for misspelled ones."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from hypothesis import strategies as st

from harness.errors import UsageError
from harness.runner.scheduling.unit import BROKEN, SKIPPED, Unit, of_id, of_module
from harness.runner.selection.named_tests import (
    Target,
    check_patterns,
    matches,
    modules_to_load,
    resolve,
    select,
)
from suites.selftest.properties import given

STORES, GLOO, EXPORT = "suites.c10d.test_stores", "suites.c10d.test_gloo", "suites.aot.test_export"
MORE, AGAIN = "suites.c10d.test_stores_more", "suites.fsdp.test_gloo"
MODULES = (STORES, GLOO, EXPORT, MORE, AGAIN)
KNOWN = dict.fromkeys(MODULES, Path())
C10D = (STORES, GLOO, MORE)


def unit(test_id: str, *, slow: bool = False) -> Unit:
    return of_id(test_id, test_id.rsplit(".", 2)[0], slow=slow)


UNITS = (
    unit(f"{STORES}.FileStoreTest.test_add"),
    unit(f"{STORES}.FileStoreTest.test_add_twice"),
    unit(f"{STORES}.FileStoreTest2.test_add"),
    unit(f"{GLOO}.GlooTest.test_all_reduce"),
    unit(f"{EXPORT}.ExportTest.test_all_operators", slow=True),
    unit(f"{EXPORT}.ExportTest.test_add"),
)


def ids(units: tuple[Unit, ...]) -> list[str]:
    return [u.id for u in units]


class ResolveTest(unittest.TestCase):
    def one(self, name: str) -> Target:
        (target,) = resolve([name], KNOWN)
        return target

    def test_names(self) -> None:
        table = (
            ("c10d", C10D, ""),
            ("suites.c10d", C10D, ""),
            ("suites", MODULES, ""),
            (STORES, (STORES,), ""),
            ("c10d.test_stores", (STORES,), ""),
            ("test_stores", (STORES,), ""),
            ("test_export.ExportTest", (EXPORT,), "ExportTest"),
            (f"{STORES}.FileStoreTest", (STORES,), "FileStoreTest"),
            (f"{MORE}.FileStoreTest", (MORE,), "FileStoreTest"),
            ("c10d.test_stores.FileStoreTest.test_add", (STORES,), "FileStoreTest.test_add"),
        )
        for name, modules, test in table:
            with self.subTest(name):
                self.assertEqual(self.one(name), Target(name, modules, test))

    def test_order_is_kept(self) -> None:
        self.assertEqual([t.text for t in resolve(["aot", "c10d"], KNOWN)], ["aot", "c10d"])

    def test_what_is_nothing_is_told_what_was_meant(self) -> None:
        table = (
            ("c10", "c10d"),
            ("suites.c10d.test_store", STORES),
            ("test_exprt", "test_export"),
            ("aot.test_exports", "aot.test_export"),
            ("zzz", "--list"),
            ("", "--list"),
        )
        for name, meant in table:
            with self.subTest(name), self.assertRaisesRegex(UsageError, meant) as caught:
                self.one(name)
            self.assertNotIn("\n", str(caught.exception))

    def test_a_name_that_several_modules_end_with(self) -> None:
        with self.assertRaisesRegex(UsageError, f"{GLOO}, {AGAIN}"):
            self.one("test_gloo")


class PathTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name).resolve()
        self.known = dict.fromkeys(MODULES, self.root)
        for module in MODULES:
            path = self.root / (module.replace(".", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            for parent in (path.parent, path.parent.parent):
                (parent / "__init__.py").touch()
        (self.root / "mine" / ".hidden").mkdir(parents=True)
        for name in ("mine/test_own.py", "mine/helper.py", "mine/.hidden/test_hidden.py"):
            (self.root / name).touch()

    def one(self, name: str, cwd: str = ".") -> Target:
        (target,) = resolve([name], self.known, self.root / cwd)
        return target

    def test_paths(self) -> None:
        mine = str(self.root / "mine")
        table = (
            ("suites/aot/test_export.py", ".", (EXPORT,), ()),
            ("suites/c10d/", ".", tuple(sorted(C10D)), ()),
            ("test_export.py", "suites/aot", (EXPORT,), ()),
            ("./test_export.py", "suites/aot", (EXPORT,), ()),
            (str(self.root / "suites/aot"), "mine", (EXPORT,), ()),
            ("mine/test_own.py", ".", ("test_own",), (mine,)),
            ("mine/helper.py", ".", ("helper",), (mine,)),
            ("mine", ".", ("test_own",), (mine,)),
        )
        for name, cwd, modules, path in table:
            with self.subTest(name=name, cwd=cwd):
                self.assertEqual(self.one(name, cwd), Target(name, modules, path=path))

    def test_a_test_behind_a_path(self) -> None:
        for name, test in (
            ("Case.test_x", "Case.test_x"),
            ("Case::test_x", "Case.test_x"),
            ("Case::Inner::test_x", "Case.Inner.test_x"),
            ("Case::test_x[a::b]", "Case.test_x[a::b]"),
            ("Case.test_x[a::b]", "Case.test_x[a::b]"),
        ):
            with self.subTest(name=name):
                target = self.one(f"mine/test_own.py::{name}")
                self.assertEqual((target.modules, target.test), (("test_own",), test))

    def test_a_test_that_looks_like_a_path(self) -> None:
        """A name that looks like a path is a test in a module unless there is such a file."""
        for test in ("Case.test_load.py", "Case.test_a/b", "Case.test_p[x.y=0.5]"):
            with self.subTest(test):
                self.assertEqual(self.one(f"{STORES}.{test}").test, test)
        with self.assertRaisesRegex(UsageError, "no such file or directory"):
            self.one(f"{STORES}.py")
        file = self.root / f"{STORES}.Case.test_a" / "b.py"
        file.parent.mkdir()
        file.touch()
        self.assertEqual(self.one(f"{STORES}.Case.test_a/b.py").modules, ("b",))

    def test_every_directory_below_is_searched_for_modules(self) -> None:
        for name in ("mine/a", "mine/b"):
            (self.root / name).mkdir()
            (self.root / name / f"test_{name[-1]}.py").touch()
        self.assertEqual(
            self.one("mine").path, tuple(str(self.root / name) for name in ("mine/a", "mine/b", "mine"))
        )

    def test_files_that_are_one_module(self) -> None:
        (self.root / "other").mkdir()
        (self.root / "other" / "test_own.py").touch()
        with self.assertRaisesRegex(UsageError, "several of these files are the module test_own"):
            resolve(["mine", "other/test_own.py"], self.known, self.root)
        with self.assertRaisesRegex(UsageError, "several of these files are the module test_own"):
            (self.root / "mine" / "below").mkdir()
            (self.root / "mine" / "below" / "test_own.py").touch()
            self.one("mine")
        self.assertEqual(len(resolve(["mine/test_own.py"] * 2, self.known, self.root)), 2)

    def test_a_file_that_has_the_name_of_a_known_module(self) -> None:
        """A file with the module name of a known module is refused, by itself or in its directory."""
        other = self.root / "copy" / "suites" / "c10d"
        other.mkdir(parents=True)
        for file in (other.parent / "__init__.py", other / "__init__.py", other / "test_stores.py"):
            file.touch()
        for name in ("copy/suites/c10d/test_stores.py", "copy", "copy/suites/c10d/test_stores.py::Case"):
            with self.subTest(name), self.assertRaisesRegex(UsageError, f"is the module {STORES}, and so is"):
                self.one(name)

    def test_no_such_path(self) -> None:
        with self.assertRaisesRegex(UsageError, "did you mean suites/aot/test_export.py"):
            self.one("suites/aot/test_exprt.py")

    def test_no_such_path_of_a_project(self) -> None:
        """In a project of one's own its files are named, and none of the suites that are installed."""
        (self.root / "tests").mkdir()
        (self.root / "tests" / "test_export_again.py").touch()
        with self.assertRaisesRegex(UsageError, r"did you mean tests/test_export_again.py\?$"):
            self.one("tests/test_exprt.py")

    def test_no_such_name_of_a_project(self) -> None:
        """What is similar of the project's own modules goes before what is similar of the suites."""
        (self.root / "mine" / "test_exports.py").touch()
        with self.assertRaisesRegex(UsageError, "did you mean test_exports"):
            self.one("test_exprts")

    def test_no_python(self) -> None:
        (self.root / "test_own.txt").touch()
        with self.assertRaisesRegex(UsageError, "test_own.txt: neither a Python file nor a directory"):
            self.one("./test_own.txt")

    def test_no_tests_below(self) -> None:
        (self.root / "empty").mkdir()
        for name in ("empty", "empty/"):
            with self.subTest(name), self.assertRaisesRegex(UsageError, r"no test_\*.py"):
                self.one(name)


class ModulesToLoadTest(unittest.TestCase):
    def test_table(self) -> None:
        aot, c10d = resolve(["aot", "c10d"], KNOWN)
        everything: tuple[Target, ...] = ()
        table = (
            (everything, (), (), MODULES),
            ((aot,), (), (), (EXPORT,)),
            ((aot, c10d, aot), (), (), (EXPORT, *C10D)),
            (everything, (), ("c10d",), (EXPORT, AGAIN)),
            (everything, (), ("suites.c10d.*",), (EXPORT, AGAIN)),
            (everything, (), ("*.test_add", "c10d.test_stores.FileStoreTest"), MODULES),
            (everything, ("aot", "fsdp"), (), (EXPORT, AGAIN)),
            (everything, ("c10d.test_stores.FileStoreTest",), (), (STORES,)),
            (everything, ("c10d.test_st*.FileStoreTest",), (), (STORES, MORE)),
            (everything, ("*.test_add",), ("c10d",), (EXPORT, AGAIN)),
            ((c10d,), ("aot",), (), ()),
        )
        for targets, include, exclude, modules in table:
            with self.subTest(include=include, exclude=exclude):
                self.assertEqual(modules_to_load(MODULES, targets, include, exclude), modules)

    def test_patterns_that_can_mean_nothing(self) -> None:
        check_patterns(
            "--include", ["c10d", "*.test_x", "suites.*", "aot.test_export.Gone", "c10d.*.T?st"], MODULES
        )
        for pattern, meant in (("c10", "c10d"), ("suites.aot.test_exprt", EXPORT), ("zzz.*", "--list")):
            with self.subTest(pattern), self.assertRaisesRegex(UsageError, f"--exclude.*{meant}"):
                check_patterns("--exclude", ["c10d", pattern], MODULES)

    @given(
        st.lists(
            st.sampled_from(("c10d", "*add*", "aot.*", "suites.c10d.test_st*.File*", GLOO, "?10d", "*.[FG]*"))
        ),
        st.lists(st.sampled_from(("aot", "*Store*", "c10d.test_gloo", f"{STORES}.FileStoreTest2"))),
    )
    def test_no_module_is_left_out_that_has_a_selected_test(
        self, include: list[str], exclude: list[str]
    ) -> None:
        chosen = select(UNITS, include=include, exclude=exclude, slow=True).units
        loaded = modules_to_load(MODULES, (), include, exclude)
        self.assertLessEqual({u.module for u in chosen}, set(loaded))


class SelectTest(unittest.TestCase):
    def test_everything_but_the_slow(self) -> None:
        selection = select(UNITS)
        self.assertEqual(selection.units, UNITS[:4] + UNITS[5:])
        self.assertEqual(selection.slow, 1)
        self.assertEqual(select(UNITS, slow=True).units, UNITS)

    def test_targets(self) -> None:
        table = (
            ("c10d", UNITS[:4]),
            ("c10d.test_stores.FileStoreTest", UNITS[:2]),
            (UNITS[0].id, UNITS[:1]),
            ("test_stores.FileStoreTest2", UNITS[2:3]),
        )
        for name, want in table:
            with self.subTest(name):
                self.assertEqual(select(UNITS, resolve([name], KNOWN)).units, want)

    def test_each_once_in_the_order_of_discovery(self) -> None:
        targets = resolve(["aot", "c10d", UNITS[0].id], KNOWN)
        self.assertEqual(select(UNITS + UNITS[:2], targets, slow=True).units, UNITS)

    def test_keywords(self) -> None:
        table: tuple[tuple[list[str], list[int]], ...] = (
            (["all_reduce"], [3]),
            (["test_add"], [0, 1, 2, 5]),
            (["*test_add"], [0, 2, 5]),
            (["gloo", "Export"], [3, 5]),
            (["nothing like that"], []),
        )
        for keywords, places in table:
            with self.subTest(keywords):
                found = ids(select(UNITS, keywords=keywords).units)
                self.assertEqual(found, [UNITS[n].id for n in places])

    def test_include_and_exclude(self) -> None:
        nothing: list[str] = []
        table = (
            (["aot"], nothing, [5]),
            (["aot", "suites.c10d.test_gloo"], nothing, [3, 5]),
            (nothing, ["c10d"], [5]),
            (nothing, ["*.test_add"], [1, 3]),
            (nothing, ["c10d.test_stores.FileStoreTest"], [2, 3, 5]),
            (["c10d"], ["*Store*"], [3]),
        )
        for include, exclude, places in table:
            with self.subTest(include=include, exclude=exclude):
                found = ids(select(UNITS, include=include, exclude=exclude).units)
                self.assertEqual(found, [UNITS[n].id for n in places])

    def test_all_must_agree(self) -> None:
        found = select(UNITS, keywords=["test_a"], include=["c10d"], exclude=["*Store*"])
        self.assertEqual(found.units, UNITS[3:4])

    def test_a_test_that_is_not_there(self) -> None:
        for name, meant in (
            ("c10d.test_stores.FileStoresTest", "FileStoreTest"),
            ("c10d.test_stores.FileStoreTest.test_ad", "FileStoreTest.test_add"),
            ("c10d.test_stores.Zzz", "--list"),
        ):
            with self.subTest(name), self.assertRaisesRegex(UsageError, meant):
                select(UNITS, resolve([name], KNOWN))

    def test_a_module_that_did_not_load_is_another_matter(self) -> None:
        self.assertEqual(select(UNITS, resolve([f"{MORE}.Case"], KNOWN)).units, ())

    def test_a_module_that_does_not_import(self) -> None:
        """A broken module is selected wherever a test of it could be, and a skipped one if it is named."""
        broken, skips = of_module(GLOO, BROKEN), of_module(EXPORT, SKIPPED)
        units = (*UNITS[:3], broken, skips)
        table: tuple[tuple[dict[str, list[str]], list[str], list[Unit]], ...] = (
            ({"keywords": ["add_twice"]}, [], [UNITS[1], broken]),
            ({"keywords": ["nothing"]}, [], [broken]),
            ({"include": ["c10d.test_gl*.[GH]*"]}, [], [broken]),
            ({"include": ["c10d.test_gloo"]}, [], [broken]),
            ({"include": ["aot"]}, [], [skips]),
            ({"include": ["*.FileStoreTest2"]}, [], [UNITS[2], broken]),
            ({"exclude": ["c10d.test_gloo.GlooTest", "c10d.test_stores"]}, [], [broken, skips]),
            ({"exclude": ["c10d", "aot"]}, [], []),
            ({}, ["c10d.test_gloo.GlooTest.test_all_reduce"], [broken]),
            ({}, ["test_export.ExportTest"], [skips]),
            ({"keywords": ["nothing"]}, ["test_export.ExportTest"], []),
            ({"keywords": ["nothing"]}, ["test_stores.FileStoreTest"], []),
        )
        for patterns, names, want in table:
            with self.subTest(patterns=patterns, names=names):
                targets = resolve(names, KNOWN)
                keywords, include, exclude = (patterns.get(k, []) for k in ("keywords", "include", "exclude"))
                loaded = modules_to_load(MODULES, targets, include, exclude)
                there = [unit for unit in units if unit.module in loaded]
                taken = select(there, targets, keywords=keywords, include=include, exclude=exclude)
                self.assertEqual(taken.units, tuple(want))

    def test_keywords_with_brackets(self) -> None:
        """Brackets of a pattern are also those of parameters, with and without a star."""
        table = (
            ("test_f[a]", "m.test_f[a]", True),
            ("m.test_f[a*", "m.test_f[ab]", True),
            ("test_f[b]", "m.test_f[a]", False),
            ("test_[fg]", "m.test_f[a]", True),
        )
        for pattern, test_id, found in table:
            with self.subTest(pattern, test_id=test_id):
                self.assertEqual(matches(pattern, test_id), found)

    @given(st.text(alphabet="ab*?[].T", max_size=6), st.text(alphabet="abT.", max_size=8))
    def test_keywords_match_as_in_unittest(self, pattern: str, name: str) -> None:
        loader = unittest.TestLoader()
        # unittest's command line converts -k this way, in a function that has no public name.
        loader.testNamePatterns = [pattern if "*" in pattern else f"*{pattern}*"]
        case = type("Case", (unittest.TestCase,), {f"test{name}": lambda self: None})
        case.__module__, case.__qualname__ = "m", "Case"
        found = bool(loader.getTestCaseNames(case))
        self.assertEqual(matches(pattern, f"m.Case.test{name}"), found)


if __name__ == "__main__":
    unittest.main()
