"""Tests sessions of pytest: what they leave out, that they write nothing, and the ids of their items."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest

import pytest

from harness.runner.pytest_modules.pytest_session import QuietPlugin, case_of
from harness.runner.pytest_modules.pytest_session import test_id as id_of
from suites.selftest.runner import runs

PROGRAM = """
import os, sys
import pytest
from harness.runner.pytest_modules.pytest_session import QuietPlugin, run_session

class Look(QuietPlugin):
    def pytest_collection_finish(self, session):
        manager = session.config.pluginmanager
        names = ("faulthandler", "junitxml", "debugging", "lfplugin", "xdist", "torch_harness")
        print("left out:", not [name for name in names if manager.has_plugin(name)])
        print("has a reporter:", manager.has_plugin("terminalreporter"))
        import conftest
        print("conftest:", conftest.number)

for _ in range(2):
    run_session(os.path.abspath("test_it.py"), Look())
"""


class SessionTest(unittest.TestCase):
    """``run_session``, in a process of its own."""

    def test_quiet(self) -> None:
        """pytest writes nothing, no file is left, and both sessions have one conftest module."""
        directory = runs.new_directory(self)
        (directory / "conftest.py").write_text(
            "import itertools, os\nnumber = os.environ['MADE'] = os.environ.get('MADE', '') + 'x'\n"
        )
        (directory / "test_it.py").write_text("def test(tmp_path, cache):\n    cache.set('a/b', 1)\n")
        (directory / "pytest.ini").write_text(
            "[pytest]\naddopts = -ra --lf --junitxml=out.xml --durations=1 --color=yes\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=directory,
            env=runs.environ(directory, PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=str(runs.RUN_TESTS.parent)),
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(done.stdout, "left out: True\nhas a reporter: True\nconftest: x\n" * 2)
        self.assertEqual(done.stderr, "")
        self.assertEqual(sorted(os.listdir(directory)), ["conftest.py", "pytest.ini", "test_it.py"])


class Collected(QuietPlugin):
    """Takes the items of a session and runs none."""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Keeps the items."""
        self.items = session.items
        return True


class IdTest(unittest.TestCase):
    """``test_id`` and ``case_of``, on items that pytest collects."""

    def test_table(self) -> None:
        """A TestCase's method has unittest's id; others have one like it, whatever their parameters hold."""
        directory = runs.new_directory(self)
        body = (
            "import pytest, unittest\n"
            "class T(unittest.TestCase):\n    def test_m(self): pass\n"
            "class TestP:\n    class TestQ:\n        def test_m(self): pass\n"
            "@pytest.mark.parametrize('a', ['x.y', 'p::q', 'u[v]'])\ndef test_f(a): pass\n"
        )
        (directory / "test_made_ids.py").write_text(body)
        plugin = Collected()
        pytest.main(["-q", "-p", "no:cacheprovider", "--capture=no", str(directory)], plugins=[plugin])
        self.addCleanup(sys.modules.pop, "test_made_ids")
        ids = [id_of(item, "test_made_ids") for item in plugin.items]
        rest = ["T.test_m", "TestP.TestQ.test_m", "test_f[x.y]", "test_f[p::q]", "test_f[u[v]]"]
        self.assertEqual(ids, [f"test_made_ids.{name}" for name in rest])
        self.assertEqual([case_of(item) is not None for item in plugin.items], [True, *[False] * 4])
