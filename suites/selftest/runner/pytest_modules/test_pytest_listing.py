"""Tests listing a module by pytest: units, skips and errors of the whole, and when pytest is not imported."""

from __future__ import annotations

import subprocess
import sys
import unittest

from suites.selftest.runner import runs
from suites.selftest.runner.runs import RunnerCase

IMPORTED = """
import sys
from harness.runner.worker_process.listing import list_module
sys.path.insert(0, "")
listing = list_module("test_m")
assert listing.units or listing.skipped, listing
print(any(name.partition(".")[0] in ("pytest", "_pytest") for name in sys.modules))
"""
NO_PYTEST = """
import sys
from harness.runner.worker_process.listing import list_module
sys.path.insert(0, "")
sys.modules["pytest"] = None
print(list_module("test_m").refusal)
"""
SPARED = """
import gc
import sys
from harness.runner.worker_process.listing import list_module
gc.disable()
sys.path.insert(0, "")
assert list_module("test_m").units
print(sys.modules["test_m"].KEPT() is not None)
"""
CYCLE = """
import weakref
class Node: pass
node = Node()
node.own = node
KEPT = weakref.ref(node)
del node
def test_f(): pass
"""
OLD_PYTEST = """
import sys
import pytest
from harness.runner.worker_process.listing import list_module
sys.path.insert(0, "")
pytest.version_tuple, pytest.__version__ = (7, 4, 0), "7.4.0"
print(list_module("test_m").refusal)
"""


class ListedTest(RunnerCase):
    """``--list`` and names, on modules that need pytest."""

    def listed(self, *argv: str) -> list[str]:
        """The ids that ``--list`` prints."""
        return self.run_tests(*argv, "--list").out.splitlines()

    def test_names(self) -> None:
        """Tests are in pytest's order, and each id, function, class and pattern selects what it says."""
        self.write(
            "test_m",
            """
            import pytest
            def test_b(): pass
            @pytest.mark.parametrize("p", ["x.y", "p::q", "u[v]", "a/b"])
            def test_a(p): pass
            class TestC:
                @pytest.mark.parametrize("q", [0.5])
                def test_m(self, q): pass
            class T(unittest.TestCase):
                def test_u(self): pass
            """,
        )
        several = [f"test_m.test_a[{p}]" for p in ("x.y", "p::q", "u[v]", "a/b")]
        everything = ["test_m.test_b", *several, "test_m.TestC.test_m[0.5]", "test_m.T.test_u"]
        self.assertEqual(self.listed("test_m"), everything)
        rows = (
            (("test_m.test_a",), several),
            (("test_m.TestC",), ["test_m.TestC.test_m[0.5]"]),
            (("test_m.py::TestC::test_m[0.5]",), ["test_m.TestC.test_m[0.5]"]),
            (("test_m.py::test_a[u[v]]",), ["test_m.test_a[u[v]]"]),
            (("test_m", "-k", "test_a[p"), ["test_m.test_a[p::q]"]),
            (("test_m", "--include", "test_m.test_a[x.y]"), ["test_m.test_a[x.y]"]),
            *(((name,), [name]) for name in everything),
        )
        for argv, expected in rows:
            with self.subTest(argv):
                self.assertEqual(self.listed(*argv), expected)

    def test_order_of_a_plugin(self) -> None:
        """pytest-randomly, for which there is ``--shuffle``, does not change the order."""
        for plugin, order in (("others", ["test_a", "test_b"]), ("randomly", ["test_b", "test_a"])):
            self.write(plugin, "def pytest_collection_modifyitems(items):\n    items.reverse()\n")
            self.write(f"test_{plugin}", "import pytest\n\ndef test_b(): pass\n\ndef test_a(): pass\n")
            (self.directory / "pytest.ini").write_text(f"[pytest]\naddopts = -p {plugin}\n")
            self.assertEqual(self.listed(f"test_{plugin}"), [f"test_{plugin}.{name}" for name in order])

    def test_whole_modules(self) -> None:
        """A module that skips itself is skipped; one that pytest cannot collect is one clear error."""
        rows = (
            ("pytest.skip('no gpu', allow_module_level=True)", "skipped", "no gpu"),
            ("pytest.importorskip('made_by_nobody')", "skipped", "could not import 'made_by_nobody'"),
            ("raise unittest.SkipTest('not today')", "skipped", "not today"),
            ("1 / 0\ndef test(): pass", "error", "does not import"),
            ("import made_by_nobody", "error", "does not import"),
            ("@pytest.mark.parametrize('n', [1])\ndef test(): pass", "error", "uses no argument 'n'"),
        )
        for number, (body, _, _) in enumerate(rows):
            self.write(f"test_m{number}", f"import pytest\n{body}\n")
        ran = self.run_tests(".")
        for number, (body, status, reason) in enumerate(rows):
            with self.subTest(body):
                record = ran.of(f"test_m{number}")
                self.assertEqual(record.status.value, status)
                self.assertIn(reason, record.reason)
        self.assertEqual(ran.code, 1)

    def test_settings_that_cannot_be_honoured(self) -> None:
        """A conftest that does not import and an unknown option are named, with a command; the rest runs."""
        rows = (
            ("bad/conftest.py", "raise RuntimeError('no')", "ImportError while loading conftest"),
            ("odd/pytest.ini", "[pytest]\naddopts = --nonesuch\n", "unrecognized arguments: --nonesuch"),
        )
        for name, text, _ in rows:
            path = self.directory / name
            path.parent.mkdir()
            path.write_text(text)
            (path.parent / f"test_{path.parent.name}.py").write_text("def test_x(): pass\n")
        self.write("test_good", "class T(unittest.TestCase):\n    def test_g(self): pass\n")
        ran = self.run_tests(".")
        self.assertEqual((ran.code, ran.of("test_g").status.value), (1, "passed"))
        for name, _, reason in rows:
            with self.subTest(name):
                folder = name.partition("/")[0]
                record = ran.of(f"test_{folder}")
                self.assertIn(reason, record.reason)
                self.assertIn(f"python -m pytest {folder}/test_{folder}.py", record.details)

    def test_deselected(self) -> None:
        """What the project's own settings deselect is not there."""
        (self.directory / "pytest.ini").write_text("[pytest]\naddopts = -m 'not slow'\nmarkers = slow\n")
        self.write("test_m", "import pytest\n@pytest.mark.slow\ndef test_s(): pass\ndef test_q(): pass\n")
        self.assertEqual(self.listed("test_m"), ["test_m.test_q"])


class ImportTest(unittest.TestCase):
    """``list_module`` in a process that has not imported pytest."""

    def said(self, program: str, body: str, **variables: str) -> str:
        """What a program prints about a module with this body."""
        directory = runs.new_directory(self)
        runs.write_module(directory, "test_m", body)
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=directory,
            env=runs.environ(directory, PYTHONPATH=str(runs.RUN_TESTS.parent), **variables),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def test_pytest_is_imported_only_where_it_is_needed(self) -> None:
        """A module of unittest's alone costs no import of pytest."""
        plain = "class T(unittest.TestCase):\n    def test(self): pass\n"
        self.assertEqual(self.said(IMPORTED, plain), "False")
        self.assertEqual(self.said(IMPORTED, f"{plain}def test_f(): pass\n"), "True")

    def test_what_was_imported_is_not_collected(self) -> None:
        """The garbage collections with which pytest ends a session leave out all that exists by then."""
        self.assertEqual(self.said(SPARED, CYCLE), "True")

    def test_without_pytest(self) -> None:
        """Where pytest is not installed, the module is refused by name, with what needs it."""
        said = self.said(NO_PYTEST, "def test_f(): pass\n")
        expected = "test_m needs pytest (the test function test_f), which is not installed"
        self.assertEqual(said.splitlines()[0], expected)

    def test_old_pytest(self) -> None:
        """A release of pytest without the hooks that are used is refused."""
        said = self.said(OLD_PYTEST, "def test_f(): pass\n")
        self.assertEqual(said, "test_m needs pytest 8 or newer; 7.4.0 is installed")
