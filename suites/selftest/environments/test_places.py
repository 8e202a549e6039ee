"""Tests runs in odd directories: the temporary one, the working one, and what stands beside the tests."""

from __future__ import annotations

import os
import unittest
import zipfile
from collections.abc import Callable
from pathlib import Path

from harness import instantiate_parametrized_tests, parametrize
from suites.selftest.environments.rows import EnvironmentCase, Row, each

# Longer than the address of a socket may be.
LONG = "/".join(["x" * 100] * 2)
NOT_ON_PYTHONPATH = {"PYTHONPATH": "{tree}"}
ODD_NAMES = "a b%c:d'e\"f$(g)\nü"


def _directory(name: str) -> Callable[[Path], None]:
    def make(directory: Path) -> None:
        (directory / name).mkdir(parents=True)

    return make


def _remove_working_directory() -> None:
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir("../gone")


def _shadows(directory: Path) -> None:
    """Makes files beside the test that are called like modules which servers and ranks import late."""
    for name in ("json", "random", "resource", "socket", "types"):
        (directory / f"{name}.py").write_text("raise ImportError('not the standard one')\n", encoding="utf-8")


def _shadows_elsewhere(directory: Path) -> None:
    (directory / "tests").mkdir()
    (directory / "test_sample.py").rename(directory / "tests" / "test_sample.py")
    _shadows(directory)


def _zip(directory: Path) -> None:
    with zipfile.ZipFile(directory / "tests.zip", "w") as archive:
        archive.write(directory / "test_sample.py", "test_zipped.py")


def _namespace(directory: Path) -> None:
    (directory / "outer" / "inner").mkdir(parents=True)
    (directory / "test_sample.py").rename(directory / "outer" / "inner" / "test_sample.py")


def _called(name: str) -> Callable[[Path], None]:
    def rename(directory: Path) -> None:
        (directory / "test_sample.py").rename(directory / f"{name}.py")

    return rename


ROWS = (
    Row(
        "``TMPDIR`` longer than a socket's address",
        variables={"TMPDIR": "{here}/" + LONG},
        prepare=_directory(LONG),
        sample="sample_reduce",
        by=("unittest",),
    ),
    Row(
        "``TMPDIR`` with odd characters",
        variables={"TMPDIR": "{here}/" + ODD_NAMES},
        prepare=_directory(ODD_NAMES),
        sample="sample_reduce",
        by=("unittest",),
    ),
    Row("``TMPDIR`` missing", variables={"TMPDIR": "/no/such/directory"}),
    Row(
        "``TMPDIR`` not UTF-8",
        variables={"TMPDIR": "{here}/\udcff"},
        prepare=_directory("\udcff"),
        says="is not UTF-8, which torch's FileStore cannot open: set TMPDIR to another directory",
        code=1,
    ),
    Row("``HOME`` unset", variables={"HOME": None}),
    Row("``HOME`` missing", variables={"HOME": "/no/such/directory"}),
    Row(
        "working directory removed",
        in_child=_remove_working_directory,
        says="the working directory has been removed",
    ),
    Row("working directory with odd characters", below=ODD_NAMES.replace(":", "")),
    Row("working directory not UTF-8", below="\udcff"),
    Row(
        "files beside the test called ``json.py``, ``types.py``",
        variables=NOT_ON_PYTHONPATH,
        prepare=_shadows,
        by=("run_tests",),
    ),
    Row(
        "such files in the working directory, spawn",
        variables={"PYTHONPATH": "{tree}:{here}/tests", "HARNESS_LAUNCHER": "spawn"},
        prepare=_shadows_elsewhere,
        by=("unittest",),
    ),
    Row("a test module called ``test_socket.py``", prepare=_called("test_socket"), module="test_socket"),
    Row(
        "a test module called ``random.py``",
        variables=NOT_ON_PYTHONPATH,
        prepare=_called("random"),
        module="random",
        by=("run_tests",),
        says="is the module random, and another file of that name is found before it",
        code=1,
    ),
    Row(
        "a test module in a zip",
        prepare=_zip,
        module="test_zipped",
        variables={"PYTHONPATH": "{tree}:{here}/tests.zip"},
        by=("unittest",),
    ),
    Row("a namespace package", prepare=_namespace, module="outer.inner.test_sample"),
)


class PlacesTest(EnvironmentCase):
    """Directories and names of files."""

    @parametrize("row", each(ROWS))
    def test_row(self, row: Row) -> None:
        """The run comes to what the row says."""
        self.run_row(row)


instantiate_parametrized_tests(PlacesTest)

if __name__ == "__main__":
    unittest.main()
