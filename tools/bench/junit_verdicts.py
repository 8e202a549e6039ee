"""Reads the verdicts of a test file from the JUnit file of pytest or of ``run_tests.py``.

Both name the same tests in different words; here a test is ``Class::test`` or ``test``, and the file as a
whole, where it was skipped or could not be imported, is ``FILE``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import junitparser

from tools.bench.upstream_file import NOT_PASSED, PASSED, SKIPPED

FILE = "the file"
# From the best to the worst, for a test that has several entries: one for each sub-test.
_ORDER = (SKIPPED, PASSED, NOT_PASSED)
# The type that pytest gives to a skipped entry where the test failed as expected.
_EXPECTED_FAILURE = "pytest.xfail"


def read(path: Path, stem: str) -> dict[str, str]:
    """The verdicts in a JUnit file, by test; ``stem`` is the name of the test file without its ending.

    OSError or ValueError where there is no file, or no JUnit in it.
    """
    try:
        suites: Any = junitparser.JUnitXml.fromfile(str(path))
    except SyntaxError as error:  # of the XML
        raise ValueError(f"{path} is no XML: {error}") from error
    entries = [
        (named(case.classname or "", case.name or "", stem), _verdict(case.result))
        for suite in suites
        for case in suite
    ]
    return merged(entries)


def merged(entries: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The worst verdict of each test; an entry of a sub-test, ``test (i=1)``, counts for its test."""
    known = list(entries)
    names = {name for name, _ in known}
    verdicts: dict[str, str] = {}
    for name, verdict in known:
        test = _of_subtest(name, names)
        verdicts[test] = max(verdict, verdicts.get(test, SKIPPED), key=_ORDER.index)
    return verdicts


def _of_subtest(name: str, names: set[str]) -> str:
    """The test to which the entry of a sub-test belongs; other names as they are."""
    ends = (name[:i] for i, letter in enumerate(name) if letter == " ")
    return next((end for end in ends if end in names), name)


def named(classname: str, name: str, stem: str) -> str:
    """The test's name as in pytest's ids, after the file's; ``FILE`` for an entry about the whole file."""
    parts = classname.split(".")
    if stem in parts:
        # run_tests.py reports a module by its own name alone, which stands for the class, too.
        whole = parts == [stem] and name == stem
        return FILE if whole else "::".join([*parts[parts.index(stem) + 1 :], name])
    whole = not classname and name.split(".")[-1] == stem
    return FILE if whole or name == stem else "::".join([*filter(None, parts), name])


def _verdict(results: Iterable[Any]) -> str:
    """Passed, skipped or not passed; a failure that was expected is passed, as it is to unittest."""
    found = list(results)
    if any(isinstance(result, (junitparser.Failure, junitparser.Error)) for result in found):
        return NOT_PASSED
    skipped = [result for result in found if isinstance(result, junitparser.Skipped)]
    return SKIPPED if any(result.type != _EXPECTED_FAILURE for result in skipped) else PASSED


def joined(runs: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The verdicts of several runs of the same file; "passed or skipped" where a test had both."""
    all_of: dict[str, set[str]] = {}
    for run in runs:
        for test, verdict in run.items():
            all_of.setdefault(test, set()).add(verdict)
    return {test: " or ".join(sorted(found)) for test, found in all_of.items()}
