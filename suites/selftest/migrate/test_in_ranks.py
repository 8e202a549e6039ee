"""Tests which classes get ``import_in_ranks = True``: a table of texts, and the list of classes."""

from __future__ import annotations

import unittest

import harness
from harness.cases.multiprocess import RankOrchestration
from harness.migrate import names
from harness.migrate.in_ranks import RANK_CASES, Added
from harness.migrate.rewrite import rewrite

IMPORT = "from torch.testing._internal.common_distributed import MultiProcessTestCase\n"
OURS = "from harness import MultiProcessTestCase\n"
ASKS = "import multiprocessing as mp\nif mp.current_process().name != 'MainProcess': act()\n"
CASE = "class T(MultiProcessTestCase):\n"
LINE = "import_in_ranks = True  # this module acts otherwise in a child process\n"


class AddTest(unittest.TestCase):
    """``add_attribute``, in a migration."""

    def test_table(self) -> None:
        """Classes whose base has ranks get it, behind their docstring, once."""
        for what, before, after in (
            ("method", CASE + "    def f(self): ...\n", CASE + f"    {LINE}\n    def f(self): ...\n"),
            ("docstring", CASE + "    'T.'\n    x = 1\n", CASE + f"    'T.'\n    {LINE}    x = 1\n"),
            ("docstring alone", CASE + "    'T.'\n", CASE + f"    'T.'\n    {LINE}"),
            ("has it", CASE + "    import_in_ranks = False\n", None),
            ("typed", CASE + "    import_in_ranks: bool = True\n", None),
            ("inherits", "class T(Mine):\n    x = 1\n", None),
        ):
            with self.subTest(what):
                done = rewrite((IMPORT + ASKS + before).encode())
                self.assertEqual(done.content.decode(), OURS + ASKS + (after or before))
                self.assertEqual(done.added, () if after is None else (Added(4, "T", 3),))
                self.assertEqual(rewrite(done.content).content, done.content)

    def test_does_not_ask(self) -> None:
        """A module that does not ask which process it is in stays as it is."""
        body = CASE + "    x = 1\n"
        self.assertEqual(rewrite((IMPORT + body).encode()).content.decode(), OURS + body)

    def test_classes(self) -> None:
        """They are the classes of harness whose ranks are processes and that upstream has by that name."""
        upstreams = {row.counterpart for row in names.rows()}
        public = {name: getattr(harness, name) for name in harness.__all__ if name in upstreams}
        cases = {n: v for n, v in public.items() if isinstance(v, type) and issubclass(v, RankOrchestration)}
        self.assertEqual(RANK_CASES, {n for n, v in cases.items() if v.rank_modes[0] != "threads"})


if __name__ == "__main__":
    unittest.main()
