"""Tests discovery: modules on disk, tests of several modules, and a cache that forgets what has changed."""

from __future__ import annotations

import os
import unittest

from harness.runner.messages import Loaded
from harness.runner.scheduling.unit import of_id, to_json
from harness.runner.selection import discovery
from harness.runner.selection.discovery import Cache, ModuleTests
from harness.runner.selection.suites_root import suites_root
from suites.selftest.runner import runs


class ModulesTest(unittest.TestCase):
    """The modules below a directory."""

    def test_below_a_package(self) -> None:
        """The modules are every importable test_*.py below the package, sorted."""
        root = runs.new_directory(self)
        for name in (
            "suites/b/test_x.py",
            "suites/a/test_y.py",
            "suites/a/base.py",
            "suites/not-a-name/test_z.py",
        ):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).touch()
        self.assertEqual(discovery.modules_below(root), ("suites.a.test_y", "suites.b.test_x"))

    def test_standard_leaves_out_our_own(self) -> None:
        """Self-tests are found but are not among the standard modules."""
        modules = discovery.modules_below(suites_root())
        self.assertIn(
            __name__ if __name__ != "__main__" else "suites.selftest.runner.selection.test_discovery", modules
        )
        self.assertFalse([m for m in discovery.standard(modules) if ".selftest." in m])


class MergeTest(unittest.TestCase):
    """Tests that several modules list."""

    def test_the_defining_module_wins(self) -> None:
        """A test belongs to the module that defines it, whatever the order of the modules."""
        own = ModuleTests("a", (of_id("a.T.test", "a"),))
        other = ModuleTests("b", (of_id("a.T.test", "b"), of_id("b.U.test", "b")))
        for order in ((own, other), (other, own)):
            units = {u.id: u.module for u in discovery.merge_units(order)}
            self.assertEqual(units, {"a.T.test": "a", "b.U.test": "b"})

    def test_different_tests_of_one_id(self) -> None:
        """An id for different tests is a duplicate, within a module or in two; an import is the same test."""
        own, imported = of_id("test", "a"), of_id("test", "b", imported=True)
        table: tuple[tuple[list[ModuleTests], dict[str, tuple[str, ...]]], ...] = (
            ([ModuleTests("a", (own,)), ModuleTests("b", (imported,))], {}),
            ([ModuleTests("a", (imported,)), ModuleTests("b", (imported,))], {}),
            ([ModuleTests("a", (own,), duplicates=("test",)), ModuleTests("b")], {"test": ("a",)}),
            ([ModuleTests("a", (own,)), ModuleTests("b", (own,))], {"test": ("a", "b")}),
            (
                [ModuleTests("a", (own,), duplicates=("test",)), ModuleTests("b", (own,))],
                {"test": ("a", "b")},
            ),
        )
        for found, several in table:
            with self.subTest(found=found):
                self.assertEqual(discovery.duplicates(found), several)

    def test_modules_without_tests_to_name(self) -> None:
        """A broken or skipped module has a unit that stands for it."""
        found = [ModuleTests("a", error="x"), ModuleTests("b", skipped="y"), ModuleTests("c")]
        ids = [u.id for u in discovery.merge_units(found)]
        self.assertEqual(ids, ["a", "b"])


class CacheTest(unittest.TestCase):
    """The cache of discovered tests."""

    def setUp(self) -> None:
        self.directory = runs.new_directory(self)
        self.source = self.directory / "m.py"
        self.source.write_text("1")

    def remember(self, **fields: object) -> Cache:
        """Returns a cache that was written and read again."""
        unit = to_json(of_id("m.T.test", "m"))
        loaded = Loaded("m", [unit], files=[str(self.source)], **fields)  # type: ignore[arg-type]  # by the tests
        cache = Cache(self.directory / "cache", "key")
        cache.put(loaded)
        cache.save()
        return Cache(self.directory / "cache", "key")

    def test_remembers(self) -> None:
        """The cache remembers everything about a module."""
        found = self.remember(dirty=True, duplicates=["m.T.test"]).get("m", self.source)
        units = (of_id("m.T.test", "m"),)
        self.assertEqual(found, ModuleTests("m", units, duplicates=("m.T.test",), dirty=True))

    def test_forgets(self) -> None:
        """The cache forgets a module whose source changed, whose key differs, or that was broken."""
        cache = self.remember()
        self.source.write_text("22")
        self.assertIsNone(cache.get("m", self.source))
        self.source.unlink()
        self.assertIsNone(cache.get("m", self.source))
        self.assertIsNone(Cache(self.directory / "cache", "other").get("m", self.source))
        self.source.write_text("1")
        self.assertIsNone(self.remember(error="broken").get("m", self.source))

    def test_a_new_conftest(self) -> None:
        """A conftest.py with code beside a module, which was not there before, may change its tests."""
        cache = self.remember()
        (self.directory / "conftest.py").write_text("collect_ignore = ['m.py']\n")
        self.assertIsNone(cache.get("m", self.source))

    def test_of_two_files(self) -> None:
        """What is known of a module holds for one file, by whatever path, and not for another."""
        cache = self.remember()
        other = self.directory / "other" / "m.py"
        other.parent.mkdir()
        other.write_text("1")
        self.assertIsNone(cache.get("m", other))
        (self.directory / "link").symlink_to(self.directory)
        self.assertTrue(discovery.is_from(self.source, "m", [str(self.directory / "link" / "m.py")]))
        self.assertFalse(discovery.is_from(other, "m", [str(self.source)]))

    def test_a_broken_file_is_an_empty_cache(self) -> None:
        """A broken cache file is an empty cache."""
        self.remember()
        (file,) = (self.directory / "cache").iterdir()
        for text in (
            "",
            "[]",
            "[" * 100_000,
            '{"version": 1, "modules": 3}',
            '{"version": 1, "modules": {"m": {"stamps": 3}}}',
        ):
            with self.subTest(text=text):
                file.write_text(text)
                self.assertIsNone(Cache(self.directory / "cache", "key").get("m", self.source))

    def test_a_place_that_cannot_be_written(self) -> None:
        """A cache that cannot be written does not stop the run."""
        cache = Cache(self.source / "below", "key")
        cache.put(Loaded("m", [], files=[str(self.source)]))
        cache.save()

    def test_context(self) -> None:
        """The key changes with the shared code, the variables that define tests, and torch."""
        root = self.directory
        (root / "harness").mkdir()
        (root / "suites").mkdir()
        (root / "harness" / "x.py").write_text("1")
        (root / "suites" / "test_own.py").write_text("1")
        before = discovery.context(root, {}, None)
        self.assertEqual(before, discovery.context(root, {"HOME": "/x", "HARNESS_SEED": "1"}, None))
        (root / "suites" / "test_own.py").write_text("22")
        self.assertEqual(before, discovery.context(root, {}, None))
        others = {before, discovery.context(root, {"PYTORCH_TEST_WITH_SLOW": "1"}, None)}
        others.add(discovery.context(root, {}, self.source))
        (root / "harness" / "x.py").write_text("22")
        others.add(discovery.context(root, {}, None))
        packages = discovery.package_directories(["/usr/lib", str(root / "site-packages")])
        self.assertEqual(packages, [root / "site-packages"])
        others.add(discovery.context(root, {}, None, packages))
        packages[0].mkdir()
        others.add(discovery.context(root, {}, None, packages))
        self.assertEqual(len(others), 6)

    def test_torch_version(self) -> None:
        """The version of torch is read without importing it, and is None if there is no torch."""
        self.source.write_text("from x import y\n__version__ = '2.13.0+cpu'\n")
        self.assertEqual(discovery.torch_version(self.source), "2.13.0+cpu")
        self.assertIsNone(discovery.torch_version(self.directory / "none.py"))
        self.assertIsNone(discovery.torch_version(None))

    def test_stamp(self) -> None:
        """A file's stamp is its time and size, and None if there is no file."""
        self.assertEqual(
            discovery.stamp(__file__), (os.stat(__file__).st_mtime_ns, os.stat(__file__).st_size)
        )
        self.assertIsNone(discovery.stamp("/nowhere"))


if __name__ == "__main__":
    unittest.main()
