"""Tests what becomes of a file that ends its import by ``sys.exit(0)``, in real runs of pytest."""

from __future__ import annotations

import unittest

from suites.selftest.pytest_plugin.runs import PytestCase


class ExitTest(PytestCase):
    """Runs over a file that exits, and one behind it."""

    def setUp(self) -> None:
        super().setUp()
        body = "print('no backend here', file=sys.stderr)\nsys.exit({code})\n"
        self.write("test_1.py", body.format(code=0))
        self.write("test_2.py", "def test_it(): pass\n")
        self.body = body

    def test_drop_in(self) -> None:
        """The file is skipped, with the reason, and the others run; so with workers."""
        for words in ((), ("-n1",)):
            with self.subTest(words):
                run = self.pytest("--drop-in", "-rs", *words)
                self.assertEqual((run.code, run.counts), (0, {"passed": 1, "skipped": 1}), run.out)
                self.assertIn("it ends by sys.exit(0) in test_1.py:6 when it is imported", run.out)

    def test_other_exits(self) -> None:
        """Without the drop-in, and with another code, it stays pytest's error that ends all."""
        run = self.pytest()
        self.assertEqual(run.code, 3, run.out)
        self.write("test_1.py", self.body.format(code=1))
        run = self.pytest("--drop-in")
        self.assertEqual(run.code, 3, run.out)


if __name__ == "__main__":
    unittest.main()
