"""Tests that ranks begin as new processes do: with nothing of torch's that the test's process has made.

Each test runs a module of its own in another process, because what it makes there would stay in this one.
"""

from __future__ import annotations

import textwrap
import unittest
from pathlib import Path

from suites.selftest import warm_python
from suites.selftest.run.scripts import TREE
from suites.selftest.runner import runs

RUN_TESTS = str(runs.RUN_TESTS)
HEAD = """
    import multiprocessing, os, sys, unittest
    import torch, torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from {harness} import MultiProcessTestCase

    def make_group():
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    """
MODULE = """
    def setUpModule():
        make_group()
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_grad_enabled(False)
        torch.use_deterministic_algorithms(True)

    class Ranks(MultiProcessTestCase):
        world_size = 2

        def test_new(self):
            self.assertFalse(dist.is_initialized())
            self.assertEqual(torch.get_default_dtype(), torch.float32)
            self.assertEqual(torch.ones(1).device.type, "cpu")
            self.assertTrue(torch.is_grad_enabled())
            self.assertFalse(torch.are_deterministic_algorithms_enabled())
            store = dist.FileStore(self.file_name, 2)
            dist.init_process_group("gloo", rank=self.rank, world_size=2, store=store)
            total = torch.ones(1)
            dist.all_reduce(total)
            self.assertEqual(total.item(), 2.0)

    class PooledRanks(Ranks):
        rank_modes = ("pooled",)
    """
AT_IMPORT = """
    make_group()

    class Ranks(MultiProcessTestCase):
        world_size = 2

        def test_own(self):
            self.assertTrue(dist.is_initialized())  # by the import of this module, in each rank
    """
CHILD = """
    IN_CHILD = multiprocessing.current_process().name != "MainProcess"
    IMPORTED_BY = os.getpid()

    class Ranks(MultiProcessTestCase):
        world_size = 2
        {wish}

        def test_child(self):
            self.assertEqual(multiprocessing.current_process().name, f"process {{self.rank}}")
            self.assertEqual(multiprocessing.parent_process().pid, os.getppid())
            self.assertTrue(multiprocessing.parent_process().is_alive())
            self.assertEqual((IN_CHILD, IMPORTED_BY == os.getpid()), ({again}, {again}))
    """
IN_RANKS = """
    class ImportingRanks(Ranks):
        import_in_ranks = True

        def test_child(self):
            self.assertEqual((IN_CHILD, IMPORTED_BY), (True, os.getpid()))

    class PooledImportingRanks(ImportingRanks):
        rank_modes = ("pooled",)
    """


DEPENDENT = """
    class Ranks(MultiProcessTestCase):
        world_size = 2
        import_in_ranks = True

        def test_dependency(self):
            self.assertEqual((made_dependency.IN_CHILD, made_dependency.IMPORTED_BY), (True, os.getppid()))
    """
THREADED = """
    class Ranks(MultiProcessTestCase):
        world_size = 2
        import_in_ranks = True

        def test_thread(self):
            self.assertEqual(made_thread.IMPORTED_BY, os.getpid())
    """


class NewProcessTest(unittest.TestCase):
    """Modules that make something in their own process, and tests of their ranks."""

    def setUp(self) -> None:
        self.directory = runs.new_directory(self)

    def play(
        self, body: str, *command: str, harness: str = "harness", first: str = "", tests: int = 1
    ) -> None:
        """Runs a module of that body by a command, and checks that so many tests ran, which all passed.

        ``first`` stands above its other imports.
        """
        path = self.directory / "test_made.py"
        path.write_text(first + textwrap.dedent(HEAD.format(harness=harness)) + textwrap.dedent(body))
        env = runs.environ(self.directory, PYTHONPATH=str(TREE))
        if command[0] == RUN_TESTS:
            run = warm_python.run_runner(
                command, cwd=self.directory, env=env, timeout=runs.PATIENCE_S, imports=("torch",)
            )
        else:
            run = warm_python.run(
                command, cwd=self.directory, env=env, timeout=runs.PATIENCE_S, children=False
            )
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertRegex(run.stdout, rf"{tests} passed|Ran {tests} test")

    def test_by_unittest(self) -> None:
        """Neither fresh nor kept ranks know what ``setUpModule`` has made in the process of the tests."""
        self.play(MODULE, "-m", "unittest", "test_made", tests=2)

    def test_by_the_runner(self) -> None:
        """Nor do those of ``run_tests.py``, whose zygote has imported the module."""
        self.play(MODULE, RUN_TESTS, "test_made.py", tests=2)

    def test_made_by_the_import(self) -> None:
        """What the module makes when it is imported is in each rank, which has imported it itself."""
        self.play(AT_IMPORT, "-m", "unittest", "test_made")

    def test_made_by_the_import_in_the_runner(self) -> None:
        """So it is with a module whose import made groups in the zygote."""
        self.play(AT_IMPORT, RUN_TESTS, "test_made.py")

    def test_child(self) -> None:
        """A rank is a child with a name, and imports the module itself where the class wishes that."""
        body = CHILD.format(wish="pass", again=False)
        self.play(body + IN_RANKS, "-m", "unittest", "test_made", tests=3)

    def test_dependencies(self) -> None:
        """What the module imports first is imported once for all of its ranks, as by a child."""
        Path(self.directory, "made_dependency.py").write_text(
            "import multiprocessing, os\nIMPORTED_BY = os.getpid()\n"
            "IN_CHILD = multiprocessing.current_process().name != 'MainProcess'\n"
        )
        self.play(DEPENDENT, "-m", "unittest", "test_made", first="import made_dependency\n")

    def test_dependencies_with_threads(self) -> None:
        """Each rank imports them itself where that starts threads."""
        Path(self.directory, "made_thread.py").write_text(
            "import os, threading\nIMPORTED_BY = os.getpid()\n"
            "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        )
        self.play(THREADED, "-m", "unittest", "test_made", first="import made_thread\n")

    def test_drop_in(self) -> None:
        """Upstream's class has its ranks import a module that asks which process it is in."""
        upstream = "torch.testing._internal.common_distributed"
        body = CHILD.format(wish="def setUp(self): super().setUp(); self._spawn_processes()", again=True)
        self.play(body, "-m", "harness.dropin", "test_made.py", harness=upstream)


if __name__ == "__main__":
    unittest.main()
