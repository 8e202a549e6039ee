"""Tests that self-tests mirror the modules that they test, so that each is found from the other's name.

``suites/selftest/<folder>/test_<module>.py`` tests ``harness/<folder>/<module>.py``; the tests of a module
may be in several files, ``test_<module>_<topic>.py``. ``test_init.py`` tests the package itself. Tools and
helpers of the suites are mirrored in the same way: ``suites/selftest/tools/test_mutants.py`` tests
``tools/mutants.py``, ``suites/selftest/spmd/test_dtensor_base.py`` tests ``suites/spmd/dtensor_base.py``.
"""

from __future__ import annotations

import unittest
from collections.abc import Collection
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
SELFTEST = Path("suites/selftest")
_ENVIRONMENTS = "checks the rows of docs/environments.rst, whole runs in odd environments"
_PROGRAMS = "checks what is said of programs with communication bugs, by all modules together"
# Self-tests of no single module, with the reason.
OF_THE_TREE = {
    "test_docstrings.py": "checks the docstrings of all modules",
    "test_forked_interpreters.py": "checks faults/forked_interpreters.py, by which self-tests start ranks",
    "test_imports_direction.py": "checks the imports of all modules",
    "test_mirroring.py": "checks the names of all self-tests",
    "test_public_names.py": "checks the names that harness and harness.graphs offer",
    "test_warm_python.py": "checks warm_python.py beside it, by which self-tests run programs",
    "communication/test_programs.py": _PROGRAMS,
    "communication/test_programs_external.py": _PROGRAMS,
    "environments/test_control_groups.py": _ENVIRONMENTS,
    "environments/test_imports.py": _ENVIRONMENTS,
    "environments/test_interpreter.py": _ENVIRONMENTS,
    "environments/test_limits.py": _ENVIRONMENTS,
    "environments/test_places.py": _ENVIRONMENTS,
    "environments/test_pytest.py": _ENVIRONMENTS,
    "environments/test_streams.py": _ENVIRONMENTS,
    "tools/test_documents.py": "checks the README and the packaging, which are no modules",
}


def sources(folder: str, pattern: str = "*.py") -> set[Path]:
    """Returns the Python files below a folder, relative to the tree."""
    return {path.relative_to(TREE) for path in (TREE / folder).rglob(pattern)}


def modules() -> set[Path]:
    """Returns the modules of harness/ that have to have a self-test of their own."""
    return {path for path in sources("harness") if path.name not in ("__init__.py", "__main__.py")}


def mirrored(test: Path, known: Collection[Path]) -> Path | None:
    """Returns the module that a self-test mirrors, of those that are ``known``; None if there is none.

    It is the module with the longest name that fits: ``test_rank_set.py`` tests ``rank_set.py`` if there is
    one, and ``rank.py`` otherwise. A module of harness/ goes before one of the suites.
    """
    folder = test.parent.relative_to(SELFTEST)
    words = test.stem.removeprefix("test_").split("_")
    if words == ["init"]:
        words = ["", "", "init", "", ""]  # so that they join to the name of a package's own file
    for home in ("harness", ".", "suites"):
        for length in range(len(words), 0, -1):
            module = Path(home, folder, "_".join(words[:length])).with_suffix(".py")
            if module in known:
                return module
    return None


class MirroredTest(unittest.TestCase):
    """``mirrored``, the rule by which the checks below go."""

    def test_table(self) -> None:
        """The longest name wins, and folders have to agree."""
        known = {
            Path("harness/ranks/rank.py"),
            Path("harness/ranks/rank_set.py"),
            Path("harness/ranks/__init__.py"),
            Path("harness/timings.py"),
            Path("tools/timings.py"),
            Path("suites/spmd/timings.py"),
        }
        for test, module in (
            ("ranks/test_rank.py", "harness/ranks/rank.py"),
            ("ranks/test_rank_hangs.py", "harness/ranks/rank.py"),
            ("ranks/test_rank_set.py", "harness/ranks/rank_set.py"),
            ("ranks/test_rank_set_hangs.py", "harness/ranks/rank_set.py"),
            ("ranks/test_ranks.py", None),
            ("ranks/test_init.py", "harness/ranks/__init__.py"),
            ("test_timings.py", "harness/timings.py"),
            ("tools/test_timings.py", "tools/timings.py"),
            ("spmd/test_timings.py", "suites/spmd/timings.py"),
            ("runner/test_timings.py", None),
        ):
            with self.subTest(test):
                self.assertEqual(mirrored(SELFTEST / test, known), Path(module) if module else None)


class MirroringTest(unittest.TestCase):
    """The files of this repository."""

    def setUp(self) -> None:
        """Finds the modules and their self-tests."""
        self.tests = sources(str(SELFTEST), "test_*.py")
        self.known = sources("harness") | sources("tools") | sources("suites") - sources(str(SELFTEST))

    def test_every_module_has_a_self_test(self) -> None:
        """Every module of harness/ is mirrored by a self-test."""
        found = {mirrored(test, self.known) for test in self.tests}
        self.assertGreater(len(found), 100)
        missing = [
            str(SELFTEST / module.parent.relative_to("harness") / f"test_{module.name}")
            for module in sorted(modules() - found)
        ]
        self.assertEqual(missing, [], "\nThere is no " + "\nThere is no ".join(missing))

    def test_every_self_test_has_a_module(self) -> None:
        """Every self-test but those of the whole tree mirrors a module."""
        stray = [
            str(test)
            for test in sorted(self.tests)
            if mirrored(test, self.known) is None and str(test.relative_to(SELFTEST)) not in OF_THE_TREE
        ]
        self.assertEqual(stray, [], "\nThere is no module for " + "\nThere is no module for ".join(stray))

    def test_exceptions_exist(self) -> None:
        """Every self-test that is listed as one of the whole tree exists and mirrors no module."""
        for name in OF_THE_TREE:
            with self.subTest(name):
                self.assertIn(SELFTEST / name, self.tests)
                self.assertIsNone(mirrored(SELFTEST / name, self.known))


if __name__ == "__main__":
    unittest.main()
