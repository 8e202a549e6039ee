"""Tests that README, pages and packaging agree with the code in names, exit codes and versions."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import harness.fuzzing
import harness.graphs
import harness.targets
from harness import __version__
from harness.configuration.configuration import parse
from harness.configuration.document import find
from harness.configuration.keys import KEYS
from harness.configuration.override import Rule
from harness.pytest_plugin.options import OPTIONS
from harness.runner.exit_codes import MEANINGS
from harness.runner.run_directory import KEPT_RUNS
from harness.runner.selection.shard_variables import FAMILIES, SLURM, SLURM_MIN, SLURM_STEP
from harness.settings import GRACE_S
from harness.variables import VARIABLES
from suites.selftest.environments import (
    test_control_groups,
    test_imports,
    test_interpreter,
    test_limits,
    test_places,
    test_pytest,
    test_streams,
)
from suites.selftest.faults.descriptors import ABUSES

TREE = Path(__file__).resolve().parents[3]
README = (TREE / "README.rst").read_text(encoding="utf-8")
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in (TREE / "docs").glob("*.rst")}
ARCHITECTURE = (TREE / "ARCHITECTURE.rst").read_text(encoding="utf-8")
CONTRIBUTING = (TREE / "CONTRIBUTING.rst").read_text(encoding="utf-8")

# One that stands for any; one that update_timings.py writes, and one of a run with --record-map.
_MADE_UP_OR_WRITTEN = {"harness/a/b.py", "suites/timings.json", "suites/impact.json.gz"}


class Readme(unittest.TestCase):
    """The examples, lists and paths in the README, and paths in the pages."""

    def test_its_first_test_passes(self) -> None:
        """The README's first test passes when it is copied out and run as the README says."""
        self.check(_code_block(README))

    def test_of_communication(self) -> None:
        """So does that of the page about communication."""
        self.check(_code_block(PAGES["communication"]))

    def check(self, code: str) -> None:
        """Runs a program with one test, which passes."""
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

    def test_tutorial(self) -> None:
        """The tutorial's project passes in a directory of its own, by the command of its workflow."""
        workflow = (TREE / "docs/tutorial/.github/workflows/tests.yml").read_text(encoding="utf-8")
        command = re.search(r"(?m)^ *- run: torch-harness (.*)$", workflow)
        assert command is not None
        with tempfile.TemporaryDirectory() as directory:
            shutil.copytree(TREE / "docs/tutorial", directory, dirs_exist_ok=True)
            done = subprocess.run(
                [sys.executable, TREE / "run_tests.py", *command[1].split()],
                cwd=directory,
                env={**os.environ, "PYTHONPATH": str(TREE)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("1 passed, 0 failed", done.stdout)

    def test_every_path_exists(self) -> None:
        """The files and directories of the tree that the README and the pages name exist."""
        for text in (README, *PAGES.values()):
            named = set(re.findall(r"``((?:harness|suites|tools|docs|\.ci)/[\w./]*\w)``", text))
            gone = {path for path in named - _MADE_UP_OR_WRITTEN if not (TREE / path).exists()}
            self.assertEqual(gone, set())
        self.assertIn("``docs/tutorial.rst``", README)

    def test_lists_the_pages(self) -> None:
        """The README's table has each page but those that include a file of the tree's root, and no other."""
        told = {row[0].strip("`") for row in _table(README, "Documentation")}
        there = {f"docs/{name}.rst" for name, text in PAGES.items() if not text.startswith(".. include::")}
        self.assertEqual(told, there - {"docs/index.rst", "docs/migration.rst"} | {"docs/api/index.rst"})


class Tables(unittest.TestCase):
    """Each table of the pages beside the file of the harness that is the home of what it lists."""

    def assert_rows(self, page: str, heading: str, home: Sequence[Sequence[str]]) -> None:
        """Compares the rows of the first table below a heading, by their first cell, with its home's."""
        told = [tuple(cell.replace("``", "") for cell in row) for row in _table(PAGES[page], heading)]
        names, wanted = Counter(row[0] for row in told), Counter(row[0] for row in home)
        self.assertFalse(wanted - names, f"rows that the table below {heading!r} lacks")
        self.assertFalse(names - wanted, f"rows that the table below {heading!r} has beyond its home's")
        for ours, theirs in zip(sorted(told), sorted(map(tuple, home)), strict=True):
            self.assertEqual(ours, theirs, f"row {ours[0]!r} below {heading!r}")

    def test_environment_variables(self) -> None:
        """The environment variables are those of ``harness/variables.py``, with their values and meanings."""
        # A bar would begin a substitution in RST.
        rows = [(v.name, v.values.replace("|", " or "), v.meaning) for v in VARIABLES]
        self.assert_rows("variables", "Environment variables", rows)

    def test_exit_codes(self) -> None:
        """The exit codes are those of ``harness/runner/exit_codes.py``, with their meanings."""
        rows = [(str(code.value), meaning) for code, meaning in MEANINGS.items()]
        self.assert_rows("running", "Exit codes", rows)

    def test_shard_variables(self) -> None:
        """The shard variables are those of ``selection/shard_variables.py``, by who sets them."""
        rows = [(f.set_by, f"{f.index}, {f.total}", str(f.first)) for f in FAMILIES]
        slurm = (SLURM.set_by, f"{SLURM.index}, {SLURM.total}", f"{SLURM_MIN}, by {SLURM_STEP}")
        self.assert_rows("shards", "Shards and merging", [*rows, slurm])

    def test_numbers_in_the_text(self) -> None:
        """What the pages say in their text about numbers of the harness is what they are."""
        self.assertIn(f"The newest {KEPT_RUNS} runs are kept", PAGES["running"])
        self.assertIn(f"The grace of {GRACE_S:g} s is part of the time", PAGES["performance"])

    def test_a_table_is_read_whole(self) -> None:
        """A table's rows are found with and without a header, cells with spaces included."""
        text = "A\n=\n\nx\n\n=  ===\na  b\n=  ===\n1  x y\n2  ``z``\n=  ===\n\nB\n-\n\n=  ==\n3  zz\n=  ==\n"
        self.assertEqual(_table(text, "A"), [("1", "x y"), ("2", "``z``")])
        self.assertEqual(_table(text, "B"), [("3", "zz")])


class PublicNames(unittest.TestCase):
    """``docs/api``, which Sphinx fills from docstrings, beside the public names."""

    def test_each_stands_once(self) -> None:
        """Each name that ``harness`` and its libraries for tests offer is on one page, and no other is."""
        pages = [path.read_text(encoding="utf-8") for path in (TREE / "docs" / "api").glob("*.rst")]
        directive = r"(?m)^\.\. (?:auto\w+|py:data):: (harness[\w.]*)$"
        told = [name for page in pages for name in re.findall(directive, page)]
        packages = (harness, harness.graphs, harness.fuzzing)
        offered = [f"{package.__name__}.{name}" for package in packages for name in package.__all__]
        offered += [
            f"harness.targets.{name}"
            for name, value in vars(harness.targets).items()
            if not name.startswith("_") and not isinstance(value, ModuleType)
        ]
        self.assertFalse(Counter(offered) - Counter(told), "public names without an entry in docs/api")
        self.assertFalse(
            Counter(told) - Counter(offered), "entries in docs/api for other names, or for one twice"
        )


class Configuration(unittest.TestCase):
    """``docs/configuration.rst`` beside ``harness/configuration``."""

    def test_keys(self) -> None:
        """The table of keys has all of them, in order, with the variables of those that are settings."""
        rows = [(cells[0].replace("``", ""), cells[1]) for cells in _table(PAGES["configuration"], "Keys")]
        self.assertEqual([name for name, _ in rows if name], [key.name for key in KEYS])
        for (_, told), key in zip([row for row in rows if row[0]], KEYS, strict=True):
            with self.subTest(key.name):
                self.assertIn(key.variable or "", told)

    def test_parts_of_overrides(self) -> None:
        """So has the table of what an override may say."""
        told = [cells[0].replace("``", "") for cells in _table(PAGES["configuration"], "Overrides")]
        parts = [each.name.removesuffix("_s") for each in fields(Rule)]
        self.assertEqual(sorted(filter(None, told)), sorted(parts))

    def test_example(self) -> None:
        """The example of the page is a configuration."""
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "pyproject.toml").write_text(
                _code_block(PAGES["configuration"], "toml"), encoding="utf-8"
            )
            found = parse(find(Path(directory)), "ci")
        self.assertEqual((len(found.overrides), found.groups["ports"].value), (1, 1))


class Pytest(unittest.TestCase):
    """``docs/pytest.rst`` beside the plugin."""

    def test_options(self) -> None:
        """The table of options has those of ``harness/pytest_plugin/options.py``."""
        told = [cell.replace("``", "").split()[0] for cell, _ in _table(PAGES["pytest"], "Options")]
        self.assertEqual(sorted(told), sorted(option.name for option in OPTIONS))

    def test_example(self) -> None:
        """The README's test function is that of the page."""
        self.assertIn("@pytest.mark.ranks(4)", _code_block(PAGES["pytest"]))
        self.assertIn(_code_block(PAGES["pytest"]), README.replace("\n    ", "\n"))


class Environments(unittest.TestCase):
    """``docs/environments.rst`` beside the tests of its rows."""

    def test_rows(self) -> None:
        """Each table has the rows of its module of tests, in order, with the errors that these expect."""
        for heading, module in (
            ("Python", test_interpreter),
            ("Streams and signals", test_streams),
            ("Directories and names", test_places),
            ("What a test module does when it is imported", test_imports),
            ("Limits, rights and namespaces", test_limits),
            ("Control groups", test_control_groups),
            ("pytest", test_pytest),
        ):
            with self.subTest(heading):
                told = _table(PAGES["environments"], heading)
                self.assertEqual([name for name, _ in told], [row.name for row in module.ROWS])
                for (_, happens), row in zip(told, module.ROWS, strict=True):
                    self.assertIn(row.says, happens)
                    self.assertEqual(happens.startswith(("right", "the same")), not row.says, row.name)


class Layout(unittest.TestCase):
    """``ARCHITECTURE.rst`` beside the folders and files of ``harness``."""

    def test_folders(self) -> None:
        """The table of folders has each folder of ``harness`` with Python files, and no other."""
        found = {path.parent.relative_to(TREE).as_posix() for path in (TREE / "harness").glob("*/**/*.py")}
        named = [row[0].strip("`") for row in _table(ARCHITECTURE, "Folders")]
        told = Counter(name for name in named if name.startswith("harness/"))
        self.assertFalse(Counter(found) - told, "folders that the table lacks")
        self.assertFalse(told - Counter(found), "rows for what is not there, or is twice")

    def test_descriptors_of_a_rank(self) -> None:
        """The table of what a rank inherits has each descriptor that a faulty case abuses, and no other."""
        heading = "What a rank inherits, and what it can do with it"
        told = [row[0] for row in _table(ARCHITECTURE, heading) if row[0]]
        self.assertEqual(sorted(told), sorted({abuse.descriptor for abuse in ABUSES.values()}))

    def test_every_path_exists(self) -> None:
        """Every file that ARCHITECTURE.rst and CONTRIBUTING.rst name exists, in the folder that they name."""
        names = {path.name for part in ("harness", "suites/selftest") for path in (TREE / part).rglob("*.py")}
        for document in (ARCHITECTURE, CONTRIBUTING):
            named = set(re.findall(r"``([\w./]*\w\.(?:py|rst|txt|html|sh))``", document))
            self.assertGreater(len(named), 20)
            places = (TREE, TREE / "harness")
            gone = {path for path in named - names if not any((place / path).is_file() for place in places)}
            self.assertEqual(gone, set())


class Packaging(unittest.TestCase):
    """The contents of setup.py and requirements.txt."""

    def _ask_setup(self, *fields: str) -> list[str]:
        command = [sys.executable, "setup.py", "--quiet", *(f"--{field}" for field in fields)]
        done = subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    def test_name_and_version(self) -> None:
        """setup.py names the project and takes its version from the package's ``__version__``."""
        self.assertEqual(self._ask_setup("name", "version")[-2:], ["torch-harness", __version__])

    def test_metadata(self) -> None:
        """What setuptools makes of the tree: an SPDX licence, a typed package, one name at the top."""
        with tempfile.TemporaryDirectory() as directory:
            command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", directory]
            subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=True)
            made = Path(directory, "torch_harness.egg-info")
            told = (made / "PKG-INFO").read_text(encoding="utf-8")
            packed = (made / "SOURCES.txt").read_text(encoding="utf-8").splitlines()
            top = (made / "top_level.txt").read_text(encoding="utf-8").split()
        self.assertIn(f"\nVersion: {__version__}\n", told)
        self.assertIn("\nLicense-Expression: BSD-3-Clause\n", told)
        self.assertIn("\nClassifier: Typing :: Typed\n", told)
        self.assertEqual(top, ["harness"])
        needed = {
            "harness/py.typed",
            "suites/timings.json",
            "run_tests.py",
            "docs/pytest.rst",
            "tools/release.sh",
        }
        self.assertLessEqual(needed, set(packed))

    def test_suites_in_a_wheel(self) -> None:
        """All files of the suites are below the package, tables and sources too, without the self-tests."""
        with tempfile.TemporaryDirectory() as directory:
            command = [sys.executable, "setup.py", "--quiet", "build", "--build-base", directory]
            subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=True)
            built = Path(directory, "lib", "harness", "bundled", "suites")
            names = {path.relative_to(built).as_posix() for path in built.rglob("*") if path.is_file()}
        files = [path.relative_to(TREE / "suites") for path in (TREE / "suites").rglob("*") if path.is_file()]
        wanted = {each.as_posix() for each in files if not {"selftest", "__pycache__"} & {*each.parts}}
        self.assertLessEqual({"timings.json", "c10d/test_stores.py", "targets/python_gloo.py"}, wanted)
        self.assertEqual(wanted - names, set())
        self.assertFalse([name for name in names if name.startswith("selftest")])

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


def _table(text: str, heading: str) -> list[tuple[str, ...]]:
    """The rows of the first simple table below a heading of an RST text, without the table's header."""
    below = re.split(rf"(?m)^{re.escape(heading)}\n[-=~]+$", text, maxsplit=1)[1].splitlines()
    start = next(number for number, line in enumerate(below) if re.fullmatch(r"=+(?: +=+)+", line))
    rule = below[start]
    columns = [match.span() for match in re.finditer("=+", rule)]
    blocks: list[list[tuple[str, ...]]] = [[]]
    for line in below[start + 1 :]:
        if not line.strip():
            break
        if line == rule:
            blocks.append([])
        else:
            ends = [*(end for _, end in columns[:-1]), None]  # the last cell may be longer than its rule
            cells = zip((begin for begin, _ in columns), ends, strict=True)
            blocks[-1].append(tuple(line[begin:end].strip() for begin, end in cells))
    return next(block for block in reversed(blocks) if block)


def _code_block(text: str, language: str = "python") -> str:
    """The first block of a language in an RST text, without its indentation."""
    after = text[text.index(f".. code-block:: {language}") :].split("\n", 1)[1]
    lines = []
    for line in after.splitlines():
        if line and not line.startswith("    "):
            break
        lines.append(line[4:])
    return "\n".join(lines).strip() + "\n"
