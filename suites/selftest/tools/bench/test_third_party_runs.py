"""Tests single runs of other projects' test files: their environment, their ends, and imports alone."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from suites.selftest.forked_case import ForkedCase
from tools.bench import third_party_runs
from tools.bench.junit_verdicts import FILE
from tools.bench.third_party_list import ThirdPartyFile
from tools.bench.third_party_runs import RUNNER, UPSTREAM
from tools.bench.upstream_file import SKIPPED


class EnvironTest(unittest.TestCase):
    """The variables with which each way runs."""

    def test_paths(self) -> None:
        """The tree is on the path of the drop-in alone, behind the project; no setting is kept."""
        file = ThirdPartyFile(Path("/root"), "a.py", (Path("/root"), Path("/packages")))
        given = {"HARNESS_RANKS": "pooled", "HOME": "/", "PYTHONPATH": f"{third_party_runs.ROOT}:/mine"}
        tree = str(third_party_runs.ROOT)
        for way, paths in ((UPSTREAM, "/mine:/root:/packages"), (RUNNER, f"/mine:/root:/packages:{tree}")):
            with self.subTest(way):
                found = third_party_runs.environ(way, file, given)
                self.assertEqual(found, {"HOME": "/", "PYTHONPATH": paths})


class DescendantsTest(unittest.TestCase):
    """The processor time of processes that still run."""

    def test_grandchildren_count(self) -> None:
        """What the process of a process has computed counts while nobody has waited for it."""
        compute = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"
        start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {compute!r}])"
        with subprocess.Popen(
            ["sh", "-c", '"$0" -c "$1"; true', sys.executable, start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            self.assertGreaterEqual(third_party_runs.descendants_cpu_s(process.pid), 0.4)
            process.communicate(b"\n")
        self.assertEqual(third_party_runs.descendants_cpu_s(process.pid), 0.0)


class RunTest(ForkedCase):
    """Runs of files in a directory of their own."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name).resolve()

    def test_no_junit(self) -> None:
        """A command that cannot run tells why by its last line."""
        file = ThirdPartyFile(self.root, "test_missing.py", (self.root,))
        played = third_party_runs.play(RUNNER, file, 60.0)
        self.assertEqual(played.verdicts, {})
        self.assertRegex(played.problem, r"exit code 2 and no junit.xml: .*test_missing")

    def test_no_tests(self) -> None:
        """A file without a test has no verdict and no problem; one that is skipped whole has a verdict."""
        skip = "import pytest\npytest.skip('no tests here', allow_module_level=True)\n"
        table = {
            "test_empty": ("import unittest\n", {}),
            "test_skipped": (skip, {FILE: SKIPPED}),
        }
        for name, (source, verdicts) in table.items():
            (self.root / f"{name}.py").write_text(source)
            file = ThirdPartyFile(self.root, f"{name}.py", (self.root,))
            for way in (UPSTREAM, RUNNER):
                with self.subTest(f"{name} by {way}"):
                    played = third_party_runs.play(way, file, 60.0)
                    self.assertEqual((played.verdicts, played.problem), (verdicts, ""))

    def test_import_alone(self) -> None:
        """A file of a package is imported under its whole name, without garbage collections.

        One that fails or hangs has no time.
        """
        package = self.root / "above" / "package"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        table = {
            "test_good": ("from . import test_good as same\nassert __name__ == 'package.test_good'", True),
            "test_garbage": ("import gc\nassert not gc.isenabled()", True),
            "test_bad": ("import not_installed", False),
            "test_slow": ("import signal\nsignal.pause()", False),
        }
        for name, (source, ends) in table.items():
            (package / f"{name}.py").write_text(source)
            file = ThirdPartyFile(self.root, f"above/package/{name}.py", (self.root,))
            with self.subTest(name):
                played = third_party_runs.import_alone(file, 60.0 if name != "test_slow" else 2.0)
                self.assertEqual(played is not None and played.cpu_s > 0.0, ends)


if __name__ == "__main__":
    unittest.main()
