"""Tests that Python which a recorded test starts notes what it executes, and starts as it would have."""

from __future__ import annotations

import unittest

from suites.selftest.impact.test_recorder import RecordedCase


class ChildTest(RecordedCase):
    """Python that a test starts."""

    def test_child(self) -> None:
        """It notes for the test that started it, and runs the ``sitecustomize`` that it would have run."""
        (self.modules / "sitecustomize.py").write_text("import os\nos.environ['SEEN'] = 'yes'\n")
        code = """
        assert os.environ.pop("SEEN") == "yes"
        with during("x"):
            child = "import os, second; second.f(); assert os.environ['SEEN'] == 'yes'"
            subprocess.run([sys.executable, "-c", child], check=True)
        """
        self.assertEqual(self.recorded(code), {"x": {"first", "second"}})


if __name__ == "__main__":
    unittest.main()
