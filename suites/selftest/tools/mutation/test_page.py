"""Tests the page of mutants that no test noticed."""

from __future__ import annotations

import unittest

from tools.mutation import page
from tools.mutation.results import Result, Verdict
from tools.mutation.sites import sites

SOURCE = "def f(a):\n    return a < '<b>'\n"


class PageTest(unittest.TestCase):
    """The text of the page, by ``html_text``."""

    def test_survivors(self) -> None:
        """Each has its source, its change, its tests and its command, escaped; what was caught has none."""
        names = {site.operator: site.name for site in sites("f.py", SOURCE)}
        results = [
            Result(names["comparison"], Verdict.SURVIVED, ("m.C.one", "m.C.two"), left_out=5),
            Result(names["early_return"], Verdict.NOT_EXECUTED),
            Result(names["constant"], Verdict.CAUGHT, ("m.C.one",)),
        ]
        text = page.html_text(results, {"f.py": SOURCE}, "3 mutants, seed 7")
        self.assertIn("- a &lt; &#39;&lt;b&gt;&#39;", text)
        self.assertIn("+ a &lt;= &#39;&lt;b&gt;&#39;", text)
        self.assertIn("2 tests execute it and passed; 5 more were left out", text)
        self.assertIn("No test executes it.", text)
        self.assertIn(f"python tools/mutate.py --mutant {names['comparison']}", text)
        self.assertNotIn(names["constant"], text)
        self.assertNotIn("<b>", text)
        self.assertIn("3 mutants, seed 7", text)
        self.assertLess(text.index(names["comparison"]), text.index(names["early_return"]), "survivors first")
