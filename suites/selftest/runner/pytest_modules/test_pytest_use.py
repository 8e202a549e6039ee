"""Tests the decision whether a module needs pytest: on sources, on modules, and on what is around a file."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import types
import unittest
from pathlib import Path

from harness.runner.pytest_modules import pytest_use
from suites.selftest.runner import runs

# Source, and what of pytest it needs.
SOURCES = (
    ("import unittest\nclass T(unittest.TestCase): pass\n", ""),
    ("import pytest\nwith pytest.raises(ValueError): pass\n", ""),
    ("from pytest import raises, approx\n", ""),
    ('"""Run by pytest.mark or not."""\n# pytest.fixture\n', ""),
    ("import pytest\n@pytest.mark.slow\nclass T: pass\n", "pytest.mark"),
    ("import pytest as p\np.skip('x', allow_module_level=True)\n", "pytest.skip"),
    ("from pytest import fixture\n", "pytest.fixture"),
    ("def f():\n    import pytest\n    pytest.importorskip('x')\n", "pytest.importorskip"),
    ("def test_x(): pass\n", "the test function test_x"),
    ("async def test_x(): pass\n", "the test function test_x"),
    ("def helper():\n    def test_x(): pass\n", ""),
    ("def test_x(): pass\ndef load_tests(loader, tests, pattern): return tests\n", ""),
    ("import pytest\n1 +\n", ""),
    ('TEXT = """\ndef test_x(): pass\nimport pytest\npytest.skip()\n"""\n', ""),
    ("import os, pytest\npytest.skip('x')\n", "pytest.skip"),
)
# The body of a module, and what of pytest it needs once it is imported.
MODULES = (
    ("class T(unittest.TestCase):\n    def test(self): pass", ""),
    ("pytestmark = []", "pytestmark"),
    ("class Mixin:\n    def test(self): pass\nclass T(Mixin, unittest.TestCase): pass", ""),
    ("class TestMixin:\n    def test(self): pass\nclass T(TestMixin, unittest.TestCase): pass", ""),
    ("class TestPlain:\n    def test(self): pass", "the class TestPlain"),
    ("class TestData:\n    def values(self): pass", ""),
    ("class TestMade:\n    def __init__(self, n): pass\n    def test(self): pass", ""),
    ("class TestNot:\n    __test__ = False\n    def test(self): pass", ""),
    (
        "mark = pytest.mark.slow\nclass T(unittest.TestCase):\n    @mark\n    def test(self): pass",
        "marks or fixtures in T",
    ),
    (
        "@pytest.mark.slow\nclass Base(unittest.TestCase): pass\nclass T(Base): pass",
        "marks or fixtures in Base",
    ),
    (
        "class T(unittest.TestCase):\n    @pytest.fixture(autouse=True)\n    def f(self): pass",
        "marks or fixtures in T",
    ),
    ("@pytest.fixture\ndef value(): pass", "the fixture value"),
    ("from made_functions import test_it", "the test function test_it"),
    ("from made_functions import test_off", ""),
)


class SourceTest(unittest.TestCase):
    """``use_in_source``, which reads a file's text."""

    def test_table(self) -> None:
        """Only names that need pytest's runner, and test functions, are a use."""
        for source, use in SOURCES:
            with self.subTest(source):
                self.assertEqual(pytest_use.use_in_source(source), use)


class ModuleTest(unittest.TestCase):
    """``use_in_module``, which looks at an imported module."""

    def test_table(self) -> None:
        """What pytest would run otherwise than unittest is a use; a base of a TestCase is none."""
        functions = types.ModuleType("made_functions")
        exec("def test_it(): pass\ndef test_off(): pass\ntest_off.__test__ = False", vars(functions))
        sys.modules["made_functions"] = functions
        self.addCleanup(sys.modules.pop, "made_functions")
        for body, use in MODULES:
            with self.subTest(body):
                module = types.ModuleType("made")
                exec(f"import pytest, unittest\n{body}", vars(module))
                self.assertEqual(pytest_use.use_in_module(module), use)

    def test_functions_that_unittest_runs(self) -> None:
        """Functions that unittest has found as tests do not need pytest."""
        module = types.ModuleType("made")
        exec("def test_x(): pass", vars(module))
        self.assertEqual(pytest_use.use_in_module(module, [vars(module)["test_x"]]), "")


class AroundTest(unittest.TestCase):
    """``use_around``, on directories that the test makes."""

    def around(self, *files: tuple[str, str], test: str = "a/b/test_x.py") -> tuple[str, ...]:
        """Writes files and returns those that need pytest for the test, below the directory."""
        directory = runs.new_directory(self)
        for name, text in (*files, (test, "")):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(textwrap.dedent(text))
        use, telling = pytest_use.use_around(directory / test, directory)
        below = tuple(str(Path(path).relative_to(directory)) for path in telling)
        self.assertEqual(use, below[0] if below else "")
        return below

    def test_table(self) -> None:
        """A conftest with code counts up to the root directory, and settings that decide verdicts count."""
        code, ini = ("conftest.py", "import os\n"), ("pytest.ini", "[pytest]\n")
        rows: tuple[tuple[tuple[tuple[str, str], ...], tuple[str, ...]], ...] = (
            ((), ()),
            ((code,), ("conftest.py",)),
            ((("conftest.py", '"""Empty."""\n# nothing\nfrom __future__ import annotations\n'),), ()),
            ((("conftest.py", "1 +"),), ("conftest.py",)),
            ((("a/b/conftest.py", "x = 1"), code), ("a/b/conftest.py", "conftest.py")),
            ((("a/c/conftest.py", "x = 1"),), ()),
            ((code, ("a/pytest.ini", "[pytest]\n")), ()),
            ((code, ("a/pyproject.toml", "[tool.pytest.ini_options]\n")), ()),
            ((code, ("a/pyproject.toml", "")), ()),
            ((code, ("a/pyproject.toml", ""), ini), ("conftest.py",)),
            ((code, ("a/setup.py", "")), ()),
            ((code, ("a/setup.cfg", "[tool:pytest]\n")), ()),
            ((code, ("a/setup.cfg", "[metadata]\n")), ("conftest.py",)),
            ((("pytest.ini", "[pytest]\nfilterwarnings =\n    error\n"),), ("pytest.ini",)),
            ((("pytest.ini", "[pytest]\npython_functions = check_*\n"),), ("pytest.ini",)),
            ((("pytest.ini", "[pytest]\npythonpath = src\n"),), ("pytest.ini",)),
            ((("pytest.ini", "[pytest]\naddopts = -ra\nmarkers = slow\n"),), ()),
        )
        for files, expected in rows:
            with self.subTest(files):
                self.assertEqual(self.around(*files), expected)

    def test_same_root_as_pytest(self) -> None:
        """The root directory is the one that pytest finds for the same file."""
        for name, text in (("a/pytest.ini", ""), ("a/pyproject.toml", ""), ("a/setup.py", ""), ("a/x", "")):
            with self.subTest(name):
                directory = runs.new_directory(self)
                (directory / "a" / "b").mkdir(parents=True)
                (directory / name).write_text(text)
                (directory / "a" / "b" / "test_x.py").write_text("def test(): pass\n")
                said = subprocess.run(
                    [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "a/b/test_x.py"],
                    cwd=directory,
                    env=runs.environ(directory),
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
                root = pytest_use.root_directory(directory / "a" / "b", directory)
                self.assertIn(f"rootdir: {root}\n", said)
