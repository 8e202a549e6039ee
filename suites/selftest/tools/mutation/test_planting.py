"""Tests that mutants are planted, and lines noted, in every Python that the environment reaches."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path

from tools.mutation import planting
from tools.mutation.sites import sites

ROOT = Path(__file__).resolve().parents[4]
FILE = "suites/selftest/tools/planted/arithmetic.py"
SOURCE = (ROOT / FILE).read_text(encoding="utf-8")


def python(code: str, environ: Mapping[str, str]) -> str:
    """What a new Python prints that runs this code."""
    command = [sys.executable, "-c", f"from suites.selftest.tools.planted import arithmetic\n{code}"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environ}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class MutantTest(unittest.TestCase):
    """A mutant in a process."""

    def test_planted(self) -> None:
        name = next(s.name for s in sites(FILE, SOURCE) if s.operator == "arithmetic")
        environ = planting.environ_for_mutant(name)
        before = sorted((ROOT / FILE).parent.rglob("*.pyc"))
        self.assertEqual(python("print(arithmetic.double(8), arithmetic.is_done(3))", environ), "0 True\n")
        self.assertEqual(python("print(arithmetic.double(8))", {}), "16\n", "the mutant was kept in a file")
        self.assertEqual(python("print(arithmetic.__file__)", environ), f"{ROOT / FILE}\n")
        self.assertLessEqual(len(sorted((ROOT / FILE).parent.rglob("*.pyc"))), len(before) + 2)

    def test_in_forks_and_in_new_processes(self) -> None:
        name = next(s.name for s in sites(FILE, SOURCE) if s.operator == "arithmetic")
        code = """
import os, subprocess, sys
if not os.fork():
    print(arithmetic.double(8), flush=True)
    os._exit(0)
os.wait()
child = "from suites.selftest.tools.planted.arithmetic import double; print(double(8))"
subprocess.run([sys.executable, "-c", child])
"""
        self.assertEqual(python(code, planting.environ_for_mutant(name)), "0\n0\n")


class LinesTest(unittest.TestCase):
    """Lines that tests execute."""

    def test_noted_by_test_and_process(self) -> None:
        """Each line is noted once for each test, also by a process that dies; outside of tests none."""
        code = """
import os
arithmetic.unused()
os.environ["HARNESS_RUNNING_TEST"] = "m.C.first"
for _ in range(3):
    arithmetic.double(1)
if not os.fork():
    arithmetic.is_done(2)
    os._exit(0)
os.wait()
os.environ["HARNESS_RUNNING_TEST"] = "m.C.second"
arithmetic.double(1)
arithmetic.is_done(2)
"""
        with tempfile.TemporaryDirectory() as directory:
            python(code, planting.environ_for_lines(Path(directory), ["other.py", FILE]))
            noted = sorted(path.read_text(encoding="utf-8") for path in Path(directory).iterdir())
        lines = ("    return 2 * number", "    return step >= 3")
        double, done = (SOURCE.splitlines().index(line) + 1 for line in lines)
        parent = f"@m.C.first\n1:{double}\n@m.C.second\n1:{double}\n1:{done}\n"
        self.assertEqual(noted, sorted([parent, f"@m.C.first\n1:{done}\n"]))

    def test_every_statement(self) -> None:
        """Each statement of a function is noted, in blocks of every kind; docstrings stay what they are."""
        source = '''
def f(a):
    """Words."""
    global b
    if a:
        b = 1
    elif b:
        b = 2
    else:
        for b in a:
            continue
    try:
        with a:
            b = 3
    except E:
        b = 4
    finally:
        b = 5
    def g():
        return 6
    match a:
        case 1:
            b = 7
    while b: b = 8
at_import = 9
'''
        tree = planting.watched(source)
        compile(tree, "f.py", "exec")
        noted = [
            node.args[0].value  # type: ignore[attr-defined]  # the call's only argument is the line
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == planting.EXECUTED
        ]
        statements = [
            node.lineno
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.stmt)
            and not isinstance(node, ast.Global)
            and 4 < node.lineno < source.splitlines().index("at_import = 9")
        ]
        self.assertEqual(sorted(noted), sorted([*statements, 24, 24]))
        function = tree.body[0]
        assert isinstance(function, ast.FunctionDef)
        self.assertEqual(ast.get_docstring(function), "Words.")
