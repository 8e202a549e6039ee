"""Tests which imports of a test's module are found, from sources and from imported modules."""

from __future__ import annotations

import sys
import types
import unittest

from harness.ranks.processes.leading_imports import leading_imports, names_in

SOURCES = {
    "": (),
    '"""Words."""\nimport a, b.c as d\n': ("a", "b.c"),
    "from __future__ import annotations\nfrom a.b import (c,\n d)\n": (
        "__future__",
        "__future__.annotations",
        "a.b",
        "a.b.c",
        "a.b.d",
    ),
    "import a\nimport os; os.environ['X'] = '1'\nimport b\n": ("a", "os"),
    "import a\nif True:\n    import b\n": ("a",),
    "from . import a\nfrom ..c import b\n": ("top.inner", "top.inner.a", "top.c", "top.c.b"),
    "from .... import a\nimport b": ("b",),
    "import (": (),
}


class LeadingImportsTest(unittest.TestCase):
    """``names_in`` and ``leading_imports``."""

    def test_sources(self) -> None:
        """Imports count up to the first statement that does anything else."""
        for source, expected in SOURCES.items():
            with self.subTest(source):
                self.assertEqual(names_in(source, "top.inner"), expected)

    def test_imported_module(self) -> None:
        """Only what is a module here is named: neither functions nor what has not been imported."""
        self.assertEqual(
            leading_imports(__name__),
            ("__future__", "sys", "types", "unittest", "harness.ranks.processes.leading_imports"),
        )

    def test_no_source(self) -> None:
        """A module without a source, and one that is not imported, name nothing."""
        made = types.ModuleType("made_without_a_source")
        sys.modules[made.__name__] = made
        self.addCleanup(sys.modules.pop, made.__name__)
        for name in (made.__name__, "sys", "not_imported_anywhere"):
            with self.subTest(name):
                self.assertEqual(leading_imports(name), ())


if __name__ == "__main__":
    unittest.main()
