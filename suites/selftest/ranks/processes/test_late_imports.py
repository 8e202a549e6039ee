"""Tests that what a test's ranks import late is there from the start in the ranks of later tests."""

from __future__ import annotations

import os
import sys
import unittest
from unittest import mock

from harness.ranks.processes import late_imports
from suites.selftest import warm_python
from suites.selftest.run.scripts import TREE
from suites.selftest.runner import runs

MODULE = """
import torch
from harness import MultiProcessTestCase

LATE = "torch.distributed.pipelining"  # which imports dynamo

class APool(MultiProcessTestCase):
    world_size = 2
    rank_modes = ("pooled",)

    def test_imports(self):
        import torch.fx.experimental.symbolic_shapes

class First(MultiProcessTestCase):
    world_size = 2

    def test_of_the_pool(self):
        self.assertTrue("torch.fx.experimental.symbolic_shapes" in sys.modules)

    def test_imports(self):
        self.assertFalse("torch._dynamo" in sys.modules)
        if self.rank == 1:
            __import__(LATE)

class Later(MultiProcessTestCase):
    world_size = 2

    def test_has_it(self):
        self.assertTrue("torch._dynamo" in sys.modules)
        self.assertTrue(LATE in sys.modules)
        self.assertFalse("torch._inductor.compile_fx" in sys.modules)

    def test_plain(self):
        torch.ones(1)

class OfTheirOwn(MultiProcessTestCase):
    world_size = 2
    import_in_ranks = True

    def test_new(self):
        self.assertFalse("torch._dynamo" in sys.modules)

def tearDownModule():
    print("parent:", "torch._dynamo" in sys.modules)
"""
OF_A_LATER_WORKER = """
import torch
from harness import MultiProcessTestCase

IMPORTED = os.urandom(8).hex()

class Forked(MultiProcessTestCase):
    world_size = 2

    def setUp(self):
        super().setUp()
        os.environ["IMPORTED_BY_THE_WORKER"] = IMPORTED

    def test_forked(self):
        self.assertTrue("torch._dynamo" in sys.modules)
        self.assertEqual(IMPORTED, os.environ["IMPORTED_BY_THE_WORKER"])
"""
PLAIN = """
import torch

class First(unittest.TestCase):
    def test_imports(self):
        self.assertFalse("torch._dynamo" in sys.modules)
        import torch._dynamo

class Second(unittest.TestCase):
    def test_has_it(self):
        self.assertTrue("torch._dynamo" in sys.modules)
"""


class LateImportsTest(unittest.TestCase):
    """``LateImports`` by itself, with fork and without."""

    def setUp(self) -> None:
        """Two modules that no process has, as if a torch that is imported imported them late."""
        for patch in (
            mock.patch.object(late_imports, "SLOW", ("late_one", "late_two")),
            mock.patch.dict(sys.modules, torch=mock.Mock()),
            mock.patch.object(late_imports, "IMPORTED"),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        self.known = late_imports.LateImports()
        self.known.share()

    def test_forks(self) -> None:
        """What one fork imports this process is told, and another fork; what was there before is not late."""
        with mock.patch.dict(sys.modules, {"late_one": mock.Mock()}):
            missing = self.known.missing()
            self.assertEqual(missing, [1])
            pid = os.fork()
            if pid == 0:
                sys.modules["late_two"] = mock.Mock()
                self.known.note(missing)
                os._exit(0)
            os.waitpid(pid, 0)
        self.assertEqual(self.known.to_import(), ["late_two"])

    def test_imports(self) -> None:
        """What does not import is left for the test that needs it, which will tell."""
        self.known.note([0])
        self.assertEqual(self.known.to_import(), [])
        with mock.patch.dict(sys.modules, {"late_one": mock.Mock()}):
            self.known.note([0])
        self.assertEqual(self.known.to_import(), ["late_one"])
        self.assertTrue(self.known.import_them())
        self.assertNotIn("late_one", sys.modules)

    def test_without_torch(self) -> None:
        """A process that has no torch imports none of it."""
        with mock.patch.dict(sys.modules, {"late_one": mock.Mock()}):
            self.known.note([0])
        with mock.patch.dict(sys.modules):
            sys.modules.pop("torch", None)
            self.assertEqual(self.known.to_import(), [])

    def test_not_shared(self) -> None:
        """A process that nobody has told of others neither notes nor imports anything."""
        alone = late_imports.LateImports()
        with mock.patch.dict(sys.modules, {"late_one": mock.Mock()}):
            alone.note([0])
        self.assertEqual(alone.to_import(), [])


class RanksTest(runs.RunnerCase):
    """Tests with ranks, and plain ones, whose files do not import dynamo."""

    imports = ("torch",)

    def setUp(self) -> None:
        super().setUp()
        self.write("test_late", MODULE)

    def test_unittest(self) -> None:
        """By unittest one server forks all ranks; the process of the tests imports nothing for them."""
        done = warm_python.run(
            ["-m", "unittest", "test_late"],
            cwd=self.directory,
            env=runs.environ(self.directory, PYTHONPATH=str(TREE)),
            timeout=runs.PATIENCE_S,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("parent: False", done.stdout)

    def test_runner(self) -> None:
        """By the runner each module has a worker of its own, of which its ranks' server is a fork."""
        self.write("test_later", OF_A_LATER_WORKER)
        done = self.run_tests("--jobs", "1", "test_late", "test_later")
        self.assertEqual(set(done.statuses.values()), {"passed"}, done.out)

    def test_plain(self) -> None:
        """What a worker's own tests import late, later workers have."""
        self.write("test_plain", PLAIN)
        done = self.run_tests("--jobs", "1", "test_plain")
        self.assertEqual(done.statuses, {"test_imports": "passed", "test_has_it": "passed"}, done.out)


if __name__ == "__main__":
    unittest.main()
