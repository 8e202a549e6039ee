"""Tests when the server is started: not with pytest's own state, and before the import of its ranks' file."""

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


FIRST = """
    import contextvars, os
    contextvars.ContextVar("made by an import").set(1)  # as a new process would have it, too
    IMPORTED_BY = os.getpid()
    with open("imports", "a") as file:
        file.write(f"{IMPORTED_BY}\\n")
    print("said by the import")
    """
ASKING = """
    import made_first
    import multiprocessing, os
    from harness import MultiProcessTestCase
    IN_CHILD, HERE = multiprocessing.current_process().name != "MainProcess", os.getpid()

    class T(MultiProcessTestCase):
        world_size = 2
        import_in_ranks = True

        def test_it(self):
            self.assertEqual((IN_CHILD, HERE), (True, os.getpid()))
            with open("ranks", "a") as file:
                file.write(f"{made_first.IMPORTED_BY}\\n")
    """


class BeforeImportTest(PytestCase):
    """A test file that ranks import themselves, and that begins with an import of another module."""

    def imports(self, *arguments: str, tests: int = 1) -> tuple[int, int]:
        """How many processes have imported the other module, and how many of them the ranks are forks of."""
        for name in ("imports", "ranks"):
            (self.project / name).write_text("")
        run = self.pytest("--drop-in", *arguments)
        self.assertEqual(run.counts, {"passed": tests}, run.out)
        self.assertNotIn("said by the import", run.out)
        ranks = (self.project / "ranks").read_text().split()
        self.assertEqual(len(ranks), 2)
        return len((self.project / "imports").read_text().split()), len(set(ranks))

    def test_one_import(self) -> None:
        """What the file imports first is imported once, and each rank has imported the file itself."""
        self.write("made_first.py", FIRST)
        self.write("test_it.py", ASKING, head="")
        self.assertEqual(self.imports(), (1, 1))

    def test_beside_another_file(self) -> None:
        """A server that is forked later would have what an earlier file has done: it is a new interpreter."""
        self.write("made_first.py", FIRST)
        self.write("test_a.py", "def test_a(): pass", head="")
        self.write("test_it.py", ASKING, head="")
        self.assertEqual(self.imports(tests=2), (2, 1))


if __name__ == "__main__":
    unittest.main()
