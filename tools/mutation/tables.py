"""Which tests compare what torch does with a file of accepted answers: these notice most, and go first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tools.planted_run import ROOT

# How a test's module names the file beside it.
_NAMES_A_FILE = re.compile(r"""\.with_name\("\w+\.txt"\)""")


def tables_first(tests: Sequence[str], most: int | None, root: Path = ROOT) -> list[str]:
    """All tests that compare with a file, then the others, ``most`` at most; each in their order.

    A test is ``package.module.Class.method``, and its module a file below ``root``.
    """
    tables = [test for test in tests if _has_table(root, test.rsplit(".", 2)[0])]
    others = set(tests).difference(tables)
    return tables + [test for test in tests if test in others][:most]


@cache
def _has_table(root: Path, module: str) -> bool:
    path = root.joinpath(*module.split(".")).with_suffix(".py")
    return path.is_file() and _NAMES_A_FILE.search(path.read_text(encoding="utf-8")) is not None
