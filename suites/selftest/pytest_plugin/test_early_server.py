"""Tests that pytest's own state is not forked where the server is started, or started again, in a test."""

from __future__ import annotations

import unittest

from suites.selftest.pytest_plugin.runs import PytestCase


class LaterTest(PytestCase):
    """A server that replaces one that died during a test."""

    warm = False

    def test_replaced_in_a_test(self) -> None:
        """It is a new interpreter, to which neither fixtures nor pytest's handlers have done anything."""
        self.write(
            "test_it.py",
            """
            import harness.ranks.processes.choose_launcher as chosen

            @pytest.fixture(autouse=True)
            def patched(monkeypatch):
                for launcher in chosen.launchers().values():
                    launcher.close()
                monkeypatch.setattr(os, "getlogin", 5, raising=False)

            class T(MultiProcessTestCase):
                world_size = 1

                def test_it(self):
                    self.assertEqual(logging.root.handlers, [])
                    self.assertNotEqual(os.getlogin, 5)
                    warnings.warn("warned in a rank")
            """,
        )
        run = self.pytest("-rA")
        self.assertEqual(run.counts, {"passed": 1}, run.out)
        self.assertIn("warned in a rank", run.out)


if __name__ == "__main__":
    unittest.main()
