"""Tests what becomes of imports: a table of texts before and after."""

from __future__ import annotations

import unittest

from harness.migrate.rewrite import rewrite

CU = "torch.testing._internal.common_utils"
CD = "torch.testing._internal.common_distributed"
TABLE = (
    ("one line", f"from {CU} import TestCase as T  # why\n", "from harness import TestCase as T  # why\n"),
    ("left", f"from {CU} import gradcheck\n", None),
    ("star", f"from {CU} import *\n", None),
    (
        "split in parentheses",
        f"from {CU} import (\n    TestCase,  # a\n    gradcheck,  # b\n)\n",
        f"from {CU} import (\n    gradcheck,  # b\n)\nfrom harness import (\n    TestCase,  # a\n)\n",
    ),
    (
        "run_tests",
        f"from {CU} import run_tests\n",
        "from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)\n",
    ),
    ("in a function", f"def f():\n    from {CU} import run_tests\n",
     "def f():\n    from harness import run_tests\n"),
    (
        "one line of several",
        f"if 1: import os; from {CU} import TestCase, swap\n",
        f"if 1: import os; from {CU} import swap; from harness import TestCase\n",
    ),
    ("alias of a module", f"import {CD} as cd\ncd.TestSkip\n", "import harness\nharness.TestSkip\n"),
    ("package", "from torch.testing._internal import common_utils\ncommon_utils.TestCase\n",
     "import harness\nharness.TestCase\n"),
    (
        "alias that stays",
        f"import {CD} as cd\ncd.TestSkip; cd.logger\n",
        f"import {CD} as cd\nimport harness\nharness.TestSkip; cd.logger\n",
    ),
    ("another variable", f"import {CD} as cd\ncd.TestSkip\ndef f(cd): cd.TestSkip\n",
     "import harness\nharness.TestSkip\ndef f(cd): cd.TestSkip\n"),
    ("line endings", f"from {CU} import TestCase, swap\r\n",
     f"from {CU} import swap\r\nfrom harness import TestCase\r\n"),
    (
        "tests by device type",
        f"from torch.testing._internal.common_device_type import ops\nfrom {CU} import TestCase, "
        "find_free_port\n",
        f"from torch.testing._internal.common_device_type import ops\nfrom {CU} import TestCase\n"
        "from harness import find_free_port\n",
    ),
    ("text", f"patch('{CD}.TestSkip')\n", None),
    ("assigned", f"import {CD} as cd\ncd.TestSkip = 1\n", None),
)  # fmt: skip


class RewriteTest(unittest.TestCase):
    """One file at a time."""

    def test_table(self) -> None:
        """The result is as expected, and a second migration changes nothing."""
        for what, before, after in TABLE:
            with self.subTest(what):
                done = rewrite(before.encode())
                self.assertEqual(done.content.decode(), before if after is None else after)
                self.assertEqual(done.moved > 0, after is not None)
                again = rewrite(done.content)
                self.assertEqual((again.content, again.moved), (done.content, 0))

    def test_left(self) -> None:
        """What is left is named with its line and the reason."""
        done = rewrite(f"import os\nfrom {CU} import (\n    TestCase,\n    gradcheck,\n)\n".encode())
        (left,) = done.left
        self.assertEqual((left.line, left.what), (4, "common_utils.gradcheck"))
        self.assertIn("torch.autograd", left.reason)

    def test_encoding(self) -> None:
        text = f"# -*- coding: latin-1 -*-\nfrom {CU} import TestCase  # \xe9\n".encode("latin-1")
        self.assertEqual(rewrite(text).content, text.replace(CU.encode(), b"harness"))


if __name__ == "__main__":
    unittest.main()
