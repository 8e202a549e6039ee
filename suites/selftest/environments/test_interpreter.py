"""Tests runs under Python's own options and under variables that change what an interpreter does."""

from __future__ import annotations

import unittest
from pathlib import Path

from harness import instantiate_parametrized_tests, parametrize
from suites.selftest.environments.rows import EnvironmentCase, Row, each


def _broken_sitecustomize(directory: Path) -> None:
    (directory / "sitecustomize.py").write_text("raise RuntimeError('broken')\n", encoding="utf-8")


def _without_psutil(directory: Path) -> None:
    text = "import sys\nsys.modules['psutil'] = None\n"
    (directory / "sitecustomize.py").write_text(text, encoding="utf-8")


ROWS = (
    Row("``python -W error``", flags=("-W", "error")),
    Row(
        "``PYTHONWARNINGS=error``",
        variables={"PYTHONWARNINGS": "error"},
        sample="sample_reduce",
        by=("unittest",),
    ),
    Row("``python -OO``", flags=("-OO",)),
    Row("``python -X dev``", flags=("-X", "dev")),
    Row("``python -B -u -s``", flags=("-B", "-u", "-s")),
    Row("``python -I run_tests.py``", flags=("-I",), variables={"PYTHONPATH": None}, by=("run_tests",)),
    Row("``PYTHONSAFEPATH=1``", variables={"PYTHONSAFEPATH": "1"}),
    Row("``PYTHONHASHSEED=0``", variables={"PYTHONHASHSEED": "0"}),
    Row(
        "``LC_ALL=C``, no UTF-8",
        variables={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
    ),
    Row(
        "``PYTHONMALLOC=debug``",
        variables={"PYTHONMALLOC": "debug", "MALLOC_PERTURB_": "85", "PYTHONFAULTHANDLER": "1"},
    ),
    Row("``PYTHONSTARTUP`` of a missing file", variables={"PYTHONSTARTUP": "/no/such/file"}),
    Row("a ``sitecustomize`` that raises", prepare=_broken_sitecustomize),
    Row(
        "``OMP_NUM_THREADS=garbage``",
        variables={"OMP_NUM_THREADS": "garbage", "MKL_NUM_THREADS": "-1"},
        sample="sample_reduce",
        by=("unittest",),
    ),
    Row("``TZ`` of no zone", variables={"TZ": ":/no/such/zone"}),
    Row("``COLUMNS=0``, ``TERM=dumb``", variables={"COLUMNS": "0", "TERM": "dumb", "NO_COLOR": "1"}),
    Row("``psutil`` missing", prepare=_without_psutil),
    Row("variables that are not UTF-8", variables={"ODD": "\udcff\udcfe"}),
)


class InterpreterTest(EnvironmentCase):
    """Options and variables."""

    @parametrize("row", each(ROWS))
    def test_row(self, row: Row) -> None:
        """The run comes to what the row says."""
        self.run_row(row)


instantiate_parametrized_tests(InterpreterTest)

if __name__ == "__main__":
    unittest.main()
