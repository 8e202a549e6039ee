"""Tests which files a process notes as executed by tests, in its threads, its forks and what it starts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path
from unittest import mock

from harness.impact import notes, recorder
from harness.settings import EnvVar

MODULES = {
    "first": "def f(): return [1 for _ in '1']\nclass C:\n    def g(self): return 1\n",
    "second": "import first\ndef f(): return first.f()\n",
    "late": "import first\nx = first.f()\nclass C:\n    y = first.C().g()\ndef f(): return 1\n",
    "data": "TABLE = {1: 2}\nclass D:\n    x = 1\n",
}


class RecordedCase(unittest.TestCase):
    """Base class of tests with a Python that notes what it executes of some modules."""

    def setUp(self) -> None:
        """Writes the modules."""
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name).resolve()
        self.modules = self.directory / "modules"
        self.executed = self.directory / "executed"
        for each in (self.modules, self.executed):
            each.mkdir()
        for name, source in MODULES.items():
            (self.modules / f"{name}.py").write_text(source, encoding="utf-8")

    def recorded(self, code: str, **variables: str) -> dict[str, set[str]]:
        """Which of the modules each test executes, by what a Python notes that runs the code."""
        with mock.patch.dict(os.environ, {"PYTHONPATH": str(self.modules)}):
            environ = {**os.environ, **recorder.environ_for(self.executed, [self.modules]), **variables}
        header = "import os, subprocess, sys, threading\nfrom harness.impact.recorder import during, renew\n"
        program = header + textwrap.dedent(code)
        subprocess.run([sys.executable, "-c", program], env=environ, cwd=self.directory, check=True)
        found: dict[str, set[str]] = {}
        for test, path in notes.read(self.executed):
            found.setdefault(test, set()).add(Path(path).stem)
        return found


class RecorderTest(RecordedCase):
    """The recorder of this Python: by ``sys.monitoring`` from 3.12 on, by a profile function before."""

    def test_by_test(self) -> None:
        """Files are noted for each test whose functions they are; what runs in an import is nobody's."""
        code = """
        import first
        first.f()
        with during("x"):
            import second, data
            second.f()
        with during("imports"):
            import late
        with during("imports and calls"):
            del sys.modules["late"]
            import late
            first.f()
            late.f()
        first.f()
        with during("y"):
            first.C().g()
        with during("z"):
            pass
        """
        imports = {"imports and calls": {"first", "late"}}
        self.assertEqual(self.recorded(code), {"x": {"first", "second"}, "y": {"first"}, **imports})

    def test_threads_and_forks(self) -> None:
        """Threads and forks of a test are the test's; a fork that goes on with another test says so."""
        code = """
        import first, second
        with during("x"):
            thread = threading.Thread(target=first.f)
            thread.start()
            thread.join()
        with during("y"):
            first.f()
            if not os.fork():
                second.f()
                os.environ["HARNESS_RUNNING_TEST"] = "z"
                renew()
                first.f()
                os._exit(0)
            os.wait()
        """
        self.assertEqual(self.recorded(code), {"x": {"first"}, "y": {"first", "second"}, "z": {"first"}})

    def test_taken_away(self) -> None:
        """A test that sets a profile function of its own keeps the files of later tests from nobody."""
        code = """
        import first
        with during("x"):
            sys.setprofile(None)
        with during("y"):
            first.f()
        """
        self.assertEqual(self.recorded(code).get("y"), {"first"})

    def test_not_asked(self) -> None:
        """Without the variable, or when the run is over and its directory gone, nothing is noted."""
        code = "import first\nwith during('x'): first.f()"
        self.assertEqual(self.recorded(code, **{EnvVar.EXECUTED: ""}), {})
        self.assertEqual(self.recorded(code, **{EnvVar.EXECUTED: str(self.directory / "gone")}), {})


if __name__ == "__main__":
    unittest.main()
