"""Tests the command that a failure names for running one test again, by running it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from harness.cases.rerun_command import rerun_command

ROOT = str(Path(__file__).resolve().parents[3])
TEST = """\
from harness import MultiProcessTestCase


class Fails(MultiProcessTestCase):
    world_size = 1

    def test_it(self):
        self.fail("in the rank")
"""


class RerunTest(unittest.TestCase):
    """The command works from the project's root, whichever way the tests were found."""

    def check(
        self, where: str, *arguments: str, prefixed: bool, files: Mapping[str, str] | None = None
    ) -> None:
        """Runs a test file at ``where`` in a project of its own, and then the command that its failure
        prints.
        """
        with tempfile.TemporaryDirectory() as project:
            for name, text in (files or {where: TEST}).items():
                file = Path(project, name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            environ = {n: v for n, v in os.environ.items() if not n.startswith("HARNESS_")}
            environ |= {"PYTHONPATH": ROOT, "PATH": f"{os.path.dirname(sys.executable)}:{environ['PATH']}"}

            def run(command: str) -> str:
                done = subprocess.run(
                    command, shell=True, cwd=project, env=environ, capture_output=True, text=True, check=False
                )
                return done.stderr + done.stdout

            first = run(" ".join(("python", *arguments)))
            found = re.search(r"reproduce: (.*)", first)
            assert found is not None, first
            self.assertEqual(found[1].startswith(f"PYTHONPATH={project}/tests:"), prefixed, found[1])
            again = run(found[1])
            self.assertRegex(again, "Ran 1 test|1 failed")
            self.assertIn("in the rank", again)

    def test_discovered_below(self) -> None:
        """If only discovery can import the test's module, the command sets PYTHONPATH."""
        self.check("tests/test_it.py", "-m", "unittest", "discover", "-s", "tests", prefixed=True)

    def test_by_pytest(self) -> None:
        """Where pytest runs the test, and maybe has put the project on the path, pytest runs it again."""
        settings = "[pytest]\npythonpath = source\n"
        alone = ("-p", "no:cacheprovider", "-p", "no:torch_harness")  # the plugin's command is its own
        files = {
            "pytest.ini": settings,
            "source/project.py": "",
            "tests/test_it.py": f"import project\n{TEST}",
        }
        self.check("tests/test_it.py", "-m", "pytest", "-q", *alone, prefixed=False, files=files)

    def test_by_bazel(self) -> None:
        """In a test of Bazel's, whose directory nobody has afterwards, it is Bazel's command."""
        for chaos, words in (("", ""), ("7", " --test_env=HARNESS_CHAOS=7")):
            variables = {"TEST_TARGET": "//a:test_b", "TEST_SRCDIR": "/gone", "HARNESS_CHAOS": chaos}
            with mock.patch.dict(os.environ, variables):
                command = rerun_command(self)
            self.assertEqual(command, f"bazel test //a:test_b{words} --test_filter=RerunTest.test_by_bazel")

    def test_importable(self) -> None:
        """If the module can be imported from the root, the command sets no PYTHONPATH."""
        self.check("test_it.py", "-m", "unittest", "test_it", prefixed=False)
        self.check("tests/inner/test_it.py", "-m", "unittest", "tests.inner.test_it", prefixed=False)


if __name__ == "__main__":
    unittest.main()
