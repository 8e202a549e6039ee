"""Tests when the server is started: not with pytest's own state, and before the import of its ranks' file."""

from __future__ import annotations

import unittest

from suites.selftest.dropin.asking_module import ASKING, FIRST, noted
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


class BeforeImportTest(PytestCase):
    """A test file that ranks import themselves, and that begins with an import of another module."""

    def imports(self, *, tests: int = 1) -> tuple[int, int]:
        """How many processes have imported the other module, and how many of them the ranks are forks of.

        Their streams have buffers, as is usual: what a module prints can come out late.
        """
        self.write("made_first.py", FIRST)
        self.write("test_it.py", ASKING, head="")
        run = self.pytest("--drop-in", PYTHONUNBUFFERED="")
        self.assertEqual(run.counts, {"passed": tests}, run.out)
        self.assertNotIn("said by the import", run.out)
        notes, by = noted(self.project)
        self.assertEqual(notes["rank"], 2)
        return notes["import"], by

    def test_one_import(self) -> None:
        """What the file imports first is imported once, and each rank has imported the file itself."""
        self.assertEqual(self.imports(), (1, 1))

    def test_beside_another_file(self) -> None:
        """A server that is forked later would have what an earlier file has done: it is a new interpreter."""
        self.write("test_a.py", "def test_a(): pass", head="")
        self.assertEqual(self.imports(tests=2), (2, 1))


if __name__ == "__main__":
    unittest.main()
