"""Tests plugins: their import, their targets, which was asked for, and the one of ``docs/targets.rst``."""

from __future__ import annotations

import importlib
import json
import re
import sys
import tempfile
import textwrap
import types
import unittest
from pathlib import Path

from harness.errors import UsageError
from harness.settings import EnvVar
from harness.targets.plugin import choose, import_plugin, targets_of
from harness.targets.target import Target
from suites.selftest.targets import plugins

ONE, TWO, THREE = (Target(*names, {}) for names in (("one", "cpu"), ("two", "cpu"), ("two", "cuda")))

PAGE = plugins.TREE / "docs" / "targets.rst"
#: What the page's reader has already: a backend that is right.
BACKEND = """
from suites.targets.python_group import PythonGroup

def create(store, rank, size, timeout):
    group = PythonGroup("mine", store, rank, size, timeout)
    group.connect()
    return group
"""
#: Collectives that the page's target declares, and others.
TESTS = ("-k", "test_all_reduce", "-k", "test_broadcast", "-k", "test_gather")
#: Lines that a plain backend's target may have, with its imports.
MOST_LINES = 35


class ImportTest(unittest.TestCase):
    """The import of a plugin, and what is said where it fails."""

    def setUp(self) -> None:
        """Makes a directory from which modules can be imported until the test is over."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        sys.path.insert(0, directory.name)
        self.addCleanup(sys.path.remove, directory.name)

    def imported(self, name: str, source: str) -> types.ModuleType | None:
        """Writes a module and imports it as a plugin."""
        plugins.write(self.directory, name, source)
        importlib.invalidate_caches()
        self.addCleanup(sys.modules.pop, name, None)
        return import_plugin({EnvVar.PLUGIN: name})

    def test_import(self) -> None:
        """It is imported once, under its name; none is where none is named."""
        module = self.imported("plugin_that_counts", "import sys\nNUMBER = len(sys.modules)\n")
        assert module is not None
        self.assertIs(import_plugin({EnvVar.PLUGIN: " plugin_that_counts "}), module)
        self.assertIsNone(import_plugin({}))
        self.assertIsNone(import_plugin({EnvVar.PLUGIN: ""}))

    def test_failures(self) -> None:
        """Any failure of the import is one line, with the place in the plugin."""
        for name, source, said in (
            ("plugin_with_fault", "x = 1 / 0\n", r"ZeroDivisionError: division by zero \(.*fault.py:1\)"),
            ("plugin_of_absent", "import absent_of_all\n", "No module named 'absent_of_all'"),
            ("plugin_of_words", "raise ValueError('two\\nlines')\n", "ValueError: two "),
        ):
            with self.subTest(plugin=name), self.assertRaisesRegex(UsageError, said) as caught:
                self.imported(name, source)
            self.assertEqual(len(str(caught.exception).splitlines()), 1)
        with self.assertRaisesRegex(UsageError, "^the plugin nonesuch does not import: .* 'nonesuch'$"):
            import_plugin({EnvVar.PLUGIN: "nonesuch"})


class ChoiceTest(unittest.TestCase):
    """``targets_of`` and ``choose``."""

    def test_targets(self) -> None:
        """TARGET, TARGETS, both or neither."""
        for names, expected in (
            ({}, ()),
            ({"TARGET": ONE}, (ONE,)),
            ({"TARGETS": [ONE, TWO]}, (ONE, TWO)),
            ({"TARGET": ONE, "TARGETS": (TWO,)}, (ONE, TWO)),
        ):
            self.assertEqual(targets_of(types.SimpleNamespace(__name__="x", **names)), expected)  # type: ignore[arg-type]  # has what is read
        for wrong in ({"TARGET": "gloo"}, {"TARGETS": ("gloo",)}, {"TARGETS": 3}):
            with self.subTest(names=wrong), self.assertRaises(UsageError):
                targets_of(types.SimpleNamespace(__name__="x", **wrong))  # type: ignore[arg-type]  # the same

    def test_choose(self) -> None:
        """The only one that fits; one line where none or several do."""
        every = (ONE, TWO, THREE)
        for targets, backend, device_type, expected in (
            ((), "x", None, None),
            ((ONE,), None, None, ONE),
            (every, "one", None, ONE),
            (every, None, "cuda", THREE),
            (every, "two", "cpu", TWO),
        ):
            self.assertIs(choose(targets, backend, device_type, where="it"), expected)
        for backend, device_type, said in (
            (None, None, r"several targets \(one on cpu, two on cpu, two on cuda\): say which"),
            ("two", None, r"several targets \(two on cpu, two on cuda\)"),
            ("three", None, "it has no target three; it has one on cpu"),
            ("one", "cuda", "it has no target one on cuda"),
        ):
            with self.subTest(backend=backend), self.assertRaisesRegex(UsageError, said):
                choose(every, backend, device_type, where="it")


class PageTest(unittest.TestCase):
    """The first example of ``docs/targets.rst``, copied as a reader of the page would."""

    def example(self) -> str:
        """The module, as it stands on the page."""
        found = re.search(r"::\n\n((?:    .*\n|\n)+)", PAGE.read_text(encoding="utf-8"))
        assert found is not None
        module, _, _ = textwrap.dedent(found[1]).partition("python run_tests.py")
        return module

    def test_length(self) -> None:
        """It is short."""
        self.assertLessEqual(len(self.example().strip().splitlines()), MOST_LINES)

    def test_runs(self) -> None:
        """The suites test the backend by it: what it declares is right, and nothing else fails."""
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            plugins.write(directory, "my_backend", BACKEND)
            plugins.write(directory, "my_target", self.example())
            done = plugins.run(
                directory,
                *(str(plugins.TREE / "run_tests.py"), "--plugin", "my_target", "c10d.test_collectives"),
                *(*TESTS, "--exclude", "*WorldSize[34]*", "--report-dir", "run"),
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            lines = (directory / "run" / "results.jsonl").read_text(encoding="utf-8").splitlines()
        results = [each for each in map(json.loads, lines) if each["kind"] == "test"]
        statuses = [each["status"] for each in results]
        self.assertGreater(statuses.count("passed"), 5, done.stdout)
        for each in results:
            if each["status"] == "skipped":
                self.assertIn("not declared by target mine", each["reason"])


if __name__ == "__main__":
    unittest.main()
