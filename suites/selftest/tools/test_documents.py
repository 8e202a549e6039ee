"""Tests that the README and the packaging agree with the code in names, exit codes and versions."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from harness import __version__
from harness.runner.exit_codes import MEANINGS
from harness.runner.shard_variables import FAMILIES, SLURM
from harness.settings import VARIABLES

TREE = Path(__file__).resolve().parents[3]
README = (TREE / "README.rst").read_text(encoding="utf-8")

# One that stands for any, and one that update_timings.py writes.
_MADE_UP_OR_WRITTEN = {"harness/a/b.py", "suites/timings.json"}


class Readme(unittest.TestCase):
    """The examples, lists and paths in the README."""

    def test_its_first_test_passes(self) -> None:
        """The README's first test passes when it is copied out and run as the README says."""
        code = _code_block(README)
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "test_sums.py").write_text(code, encoding="utf-8")
            done = subprocess.run(
                [sys.executable, "test_sums.py"],
                cwd=directory,
                env={**os.environ, "PYTHONPATH": str(TREE)},
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Ran 1 test", done.stderr)

    def test_every_variable_is_listed_with_its_meaning(self) -> None:
        """The README lists every variable of ``VARIABLES`` with its meaning."""
        for variable in VARIABLES:
            row = re.search(rf"^``{variable.name}`` +(\S.*)$", README, re.MULTILINE)
            self.assertIsNotNone(row, variable.name)
            assert row is not None
            self.assertIn(variable.meaning, row[1].replace("``", ""))

    def test_every_exit_code_is_listed(self) -> None:
        """The README lists every exit code by number, with a meaning."""
        for code in MEANINGS:
            self.assertRegex(README, rf"(?m)^{int(code)} +\w+")

    def test_every_shard_variable_is_listed(self) -> None:
        """The README lists both variables of each pair that names a shard."""
        for family in (*FAMILIES, SLURM):
            self.assertIn(f"``{family.index}``, ``{family.total}``", README)

    def test_every_path_exists(self) -> None:
        """The files and directories of the tree that the README names exist."""
        named = re.findall(r"``((?:harness|suites|tools|\.ci)/[\w./]*\w)``", README)
        self.assertGreater(len(named), 5)
        for path in named:
            if path not in _MADE_UP_OR_WRITTEN:
                self.assertTrue((TREE / path).exists(), path)


class Packaging(unittest.TestCase):
    """The contents of setup.py and requirements.txt."""

    def _ask_setup(self, *fields: str) -> list[str]:
        command = [sys.executable, "setup.py", "--quiet", *(f"--{field}" for field in fields)]
        done = subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    def test_name_and_version(self) -> None:
        """setup.py names the project and takes its version from the package's ``__version__``."""
        self.assertEqual(self._ask_setup("name", "version")[-2:], ["torch-harness", __version__])

    def test_requirements_are_pinned(self) -> None:
        """Every requirement is pinned to one version, because a looser one could change results."""
        lines = (TREE / "requirements.txt").read_text(encoding="utf-8").splitlines()
        wanted = [line.partition("#")[0].partition(";")[0].strip() for line in lines]
        for line in filter(None, wanted):
            self.assertRegex(line, r"^[a-z0-9-]+==[0-9][0-9a-z.]*$")

    def test_what_is_installed_with_the_library_is_pinned_too(self) -> None:
        """Every library that setup.py requires is pinned in requirements.txt."""
        setup = (TREE / "setup.py").read_text(encoding="utf-8")
        block = setup[setup.index("install_requires=[") : setup.index("extras_require")]
        required = set(re.findall(r'"([a-z0-9-]+)>=', block))
        pinned = set(
            re.findall(r"(?m)^([a-z0-9-]+)==", (TREE / "requirements.txt").read_text(encoding="utf-8"))
        )
        self.assertGreater(len(required), 3)
        self.assertLessEqual(required, pinned)


def _code_block(text: str) -> str:
    """The first Python block of an RST text, without its indentation."""
    after = text[text.index(".. code-block:: python") :].split("\n", 1)[1]
    lines = []
    for line in after.splitlines():
        if line and not line.startswith("    "):
            break
        lines.append(line[4:])
    return "\n".join(lines).strip() + "\n"
