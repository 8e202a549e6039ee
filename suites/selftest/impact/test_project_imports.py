"""Tests which files of a project the sources of modules import."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from harness.impact.project_imports import Imports

FILES = {
    "app/__init__.py": "",
    "app/sums.py": "import os\n",
    "app/model.py": "from . import sums\nfrom .parts.layer import Layer\n",
    "app/parts/__init__.py": "from ..limits import LIMIT\n",
    "app/parts/layer.py": "def f():\n    import app.late\n",
    "app/limits.py": "import app.sums\n",
    "app/late.py": "",
    "app/broken.py": "def (:\n",
    "tests/test_sums.py": "from app.sums import add\n",
    "tests/test_model.py": "import app.model as m\nimport helper\n",
    "tests/test_round.py": "import test_round\nimport app.broken\n",
    "tests/helper.py": "",
}


class ReachedTest(unittest.TestCase):
    """``Imports.reached``, in a project of a package and tests."""

    def test_table(self) -> None:
        """A file imports itself, what it names anywhere, the packages around that, and what those import."""
        with tempfile.TemporaryDirectory() as directory:
            top = Path(directory, "project").resolve()
            for name, source in FILES.items():
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_text(source, encoding="utf-8")
            (top.parent / "os.py").touch()
            imports = Imports((top, top / "tests", top.parent), top)
            for name, wanted in (
                ("tests/test_sums.py", "app/__init__ app/sums"),
                (
                    "tests/test_model.py",
                    "app/__init__ app/late app/limits app/model app/parts/__init__ app/parts/layer app/sums"
                    " tests/helper",
                ),
                ("tests/test_round.py", "app/__init__ app/broken"),
            ):
                with self.subTest(name):
                    found = {path.relative_to(top).as_posix() for path in imports.reached(top / name)}
                    self.assertEqual(found, {name, *(f"{each}.py" for each in wanted.split())})


if __name__ == "__main__":
    unittest.main()
