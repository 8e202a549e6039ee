"""Tests for which modules a server of ranks is forked before the import, and what is imported then."""

from __future__ import annotations

import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness.dropin.before_import import only_defines, prepare
from harness.dropin.child_code import differs_in_children
from harness.settings import EnvVar

ASKING = "import made_first\nimport os, multiprocessing\nWHERE = multiprocessing.current_process().name\n"


class PrepareTest(unittest.TestCase):
    """``prepare``, of a module ``made_test`` that imports ``made_first`` first."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        for patch in (
            mock.patch.dict(os.environ, {EnvVar.DROP_IN: "1"}),
            mock.patch.dict(sys.modules),
            mock.patch.object(sys, "path", [directory.name, *sys.path]),
            mock.patch.object(sys, "dont_write_bytecode", True),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        for name in [n for n in sys.modules if n.startswith("suites.") or n.rpartition(".")[2] == "conftest"]:
            del sys.modules[name]  # other tests may have imported some that ask
        os.environ.pop(EnvVar.HOSTS, None)

    def prepared(self, source: str = ASKING, **others: str) -> tuple[bool, bool]:
        """Whether ``made_test`` can be imported by ranks, and whether ``made_first`` was imported."""
        for name, text in {"made_test": source, "made_first": "", **others}.items():
            (self.directory / f"{name}.py").write_text(text)
        ready = prepare("made_test", str(self.directory / "made_test.py"))
        self.assertNotIn("made_test", sys.modules)
        return ready, "made_first" in sys.modules

    def test_asking(self) -> None:
        """What a module that asks imports first has been imported, and the module has not."""
        self.assertEqual(self.prepared(), (True, True))

    def test_no_question(self) -> None:
        """Nothing is imported for another module."""
        self.assertEqual(self.prepared("import made_first\n"), (False, False))

    def test_other_runs(self) -> None:
        """Nor without the drop-in, nor where ranks are on several hosts."""
        for name, value in ((EnvVar.DROP_IN, "0"), (EnvVar.HOSTS, "a,b")):
            with self.subTest(name), mock.patch.dict(os.environ, {name: value}):
                self.assertEqual(self.prepared(), (False, False))

    def test_imported_already(self) -> None:
        """Nor where the module has been imported."""
        with mock.patch.dict(sys.modules, {"made_test": unittest}):
            self.assertFalse(prepare("made_test", __file__))

    def test_dependency_that_asks(self) -> None:
        """One whose dependency asks, too: that has heard that this is the main process."""
        for source, ready in (
            ("import multiprocessing\nNAME = multiprocessing.current_process().name\n", False),
            ("from multiprocessing import parent_process as p, current_process\ncurrent_process()\n", False),
            ("import multiprocessing\n", True),
            ("QUESTION = 'current_process()'\n", True),
        ):
            with self.subTest(source):
                sys.modules.pop("made_first", None)
                differs_in_children.cache_clear()
                self.assertEqual(self.prepared(made_first=source), (ready, True))

    def test_failing_dependency(self) -> None:
        """One whose dependency does not import, or ends the process: its own import will tell."""
        for source in ("1 / 0", "raise SystemExit(3)", "import no_such_module"):
            with self.subTest(source):
                self.assertEqual(self.prepared(made_first=source), (False, False))

    def test_conftest(self) -> None:
        """A conftest that has been imported may define names, and no more."""
        for source, ready in (("VALUE = 1\n", True), ("import sys\nsys.made_by_conftest = 1\n", False)):
            with self.subTest(source):
                (self.directory / "conftest.py").write_text(source)
                __import__("conftest")
                self.addCleanup(lambda: vars(sys).pop("made_by_conftest", None))
                self.assertEqual(self.prepared()[0], ready)
                del sys.modules["conftest"]


class DefinitionsTest(unittest.TestCase):
    """``only_defines``, by sources of conftest files."""

    def test_sources(self) -> None:
        """Sources by what they do when they are imported."""
        for source, defines in (
            ('"""Text."""\nimport os\nfrom os import path\n', True),
            ("@fixture\ndef group(): os.environ['A'] = '1'\nclass A: pass\nB: int = 1\nC = D = f()\n", True),
            ("import os\nos.environ['A'] = '1'\n", False),
            ("import torch\ntorch.add = None\n", False),
            ("A, torch.add = 1, 2\n", False),
            ("f()\n", False),
            ("if True:\n    f()\n", False),
            ("A += 1\n", False),
            ("def pytest_configure(config): pass\n", False),
            ("pytest_plugins = ['a']\n", False),
            ("def f(:\n", False),
        ):
            with self.subTest(source):
                self.assertEqual(only_defines(source), defines)


if __name__ == "__main__":
    unittest.main()
