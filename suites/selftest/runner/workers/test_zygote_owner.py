"""Tests which modules a run's zygote imports, and that one which an import has harmed is replaced."""

from __future__ import annotations

import os
import signal
import sys
import unittest
from pathlib import Path
from unittest import mock

from harness.errors import HarnessError
from harness.runner.messages import Loaded
from harness.runner.workers import zygote_owner
from harness.runner.workers.zygote_owner import MOST_LOSSES, ZygoteOwner
from suites.selftest.runner import runs

# Every module notes its import in a file beside it.
NOTE = """
with open(os.path.join(os.path.dirname(__file__), "imports"), "a") as imports:
    print(__name__, file=imports)
"""
FINE = "class T(unittest.TestCase):\n    def test_1(self): pass\n"
ENDS = "print('a line in the log', flush=True)\nos._exit(9)\n"
LEAVES_A_THREAD = "threading.Thread(target=threading.Event().wait, daemon=True).start()\n" + FINE
RAISES = "raise ValueError(3)\n"


class ZygoteOwnerTest(unittest.TestCase):
    """An owner of real zygotes, which import modules that the test writes."""

    def setUp(self) -> None:
        self.directory = runs.new_directory(self)
        self.notices: list[str] = []
        wake, self.stop = os.pipe()
        self.addCleanup(os.close, wake)
        self.addCleanup(os.close, self.stop)
        environ, path = runs.environ(self.directory), [str(self.directory)]
        self.owner = ZygoteOwner(environ, sys.path, path, wake)
        self.addCleanup(self.owner.close)

    def write(self, **bodies: str) -> None:
        for name, body in bodies.items():
            runs.write_module(self.directory, name, NOTE + body)

    def load(self, *modules: str) -> list[Loaded]:
        return list(self.owner.load(modules, self.notices.append))

    def zygote(self) -> int:
        """Returns the process id of the owner's zygote, which is started where there is none."""
        return self.owner.zygote(self.notices.append).pid

    def imports(self) -> list[str]:
        """Returns the modules that zygotes have imported, sorted, each as often as it was imported."""
        return sorted(Path(self.directory, "imports").read_text().split())

    def test_import(self) -> None:
        """Each module is imported once, also where it is asked for again, and the times are kept."""
        self.write(a=FINE, b=FINE, c=FINE)
        self.assertEqual([loaded.module for loaded in self.load("a", "b")], ["a", "b"])
        self.assertEqual(
            [[u["id"] for u in loaded.units] for loaded in self.load("b", "c")], [["c.T.test_1"]]
        )
        self.assertEqual(self.imports(), ["a", "b", "c"])
        self.assertEqual(set(self.owner.import_s), {"a", "b", "c"})
        self.assertEqual(self.zygote(), self.owner.pid)
        self.assertEqual(self.notices, [])

    def test_an_import_that_raises(self) -> None:
        """A module that raises is an error, is not asked for again, and does not cost the zygote."""
        self.write(a=RAISES, b=FINE)
        first, second = self.load("a", "b")
        self.assertIn("ValueError: 3", first.error)
        self.assertEqual(second.error, "")
        self.assertEqual(self.load("a"), [])
        self.assertEqual(set(self.owner.import_s), {"b"})
        self.assertEqual(self.notices, [])

    def test_an_import_that_ends_the_zygote(self) -> None:
        """The module is an error, and the next zygote imports all modules but that one."""
        self.write(a=FINE, b=ENDS, c=FINE)
        results = self.load("a", "b", "c")
        self.assertEqual(
            [(r.module, bool(r.error)) for r in results], [("a", False), ("b", True), ("c", False)]
        )
        self.assertIn("exit code 9", results[1].error)
        self.assertEqual(self.load("b"), [])
        self.assertEqual(self.imports(), ["a", "a", "b", "c"])
        (notice,) = self.notices
        self.assertIn("starting another", notice)
        self.assertNotIn("\n", notice)

    def test_an_import_that_leaves_a_thread(self) -> None:
        """The module's tests are found, and the next zygote has one thread because it does not import it."""
        self.write(a=FINE, b=LEAVES_A_THREAD, c=FINE)
        results = self.load("a", "b", "c")
        self.assertEqual([(r.module, r.dirty) for r in results], [("a", False), ("b", True), ("c", False)])
        self.assertEqual(len(results[1].units), 1)
        self.assertEqual(len(os.listdir(f"/proc/{self.zygote()}/task")), 1)
        self.assertEqual(self.imports(), ["a", "a", "b", "c", "c"])
        self.assertEqual(self.load("b"), [])
        self.assertEqual(
            self.notices,
            ["importing b leaves threads, process groups or a GPU's runtime: its workers import it anew"],
        )

    def test_torch_of_a_module_that_leaves_a_thread(self) -> None:
        """What such a module imports of torch, the next zygote imports as well, for the module's workers."""
        seen = self.directory / "seen"
        self.write(
            a=f"import torch\n{LEAVES_A_THREAD}",
            b=f"with open({str(seen)!r}, 'a') as file:\n    print('torch' in sys.modules, file=file)\n{FINE}",
        )
        self.assertEqual([loaded.dirty for loaded in self.load("a", "b")], [True, False])
        self.assertEqual(seen.read_text().split(), ["True", "True"])  # in two zygotes
        self.assertEqual(len(os.listdir(f"/proc/{self.zygote()}/task")), 1)

    def test_a_zygote_that_dies_later(self) -> None:
        """A zygote that dies after the imports is replaced by one that imports the modules again."""
        self.write(a=FINE, b=RAISES)
        self.load("a", "b")
        first = self.zygote()
        os.kill(first, signal.SIGKILL)
        self.owner.lost()
        self.assertIsNone(self.owner.pid)
        self.assertNotEqual(self.zygote(), first)
        self.assertEqual(self.imports(), ["a", "a", "b"])

    def test_too_many_losses(self) -> None:
        """A run goes on after ``MOST_LOSSES`` dead zygotes, and the next one ends it."""
        for _ in range(MOST_LOSSES):
            self.owner.lost()
        with self.assertRaisesRegex(HarnessError, "again and again: for a reason"):
            self.owner.lost("for a reason")

    def test_too_many_imports_that_end_the_zygote(self) -> None:
        """Losses during imports count too; the modules up to the last one have their errors by then."""
        self.write(a=ENDS, b=ENDS, c=FINE)
        results = []
        with mock.patch.object(zygote_owner, "MOST_LOSSES", 1), self.assertRaises(HarnessError):
            for loaded in self.owner.load(["a", "b", "c"], self.notices.append):
                results.append(loaded.module)
        self.assertEqual(results, ["a", "b"])
        self.assertIsNone(self.owner.pid)

    def test_a_wish_to_stop(self) -> None:
        """The user's wish to stop ends an import that hangs, and leaving the context reaps the zygote."""
        self.write(a="threading.Event().wait()\n")
        os.write(self.stop, b"!")
        with self.owner:
            with self.assertRaises(KeyboardInterrupt):
                self.load("a")
            pid = self.owner.pid
        assert pid is not None
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)
        self.assertIsNone(self.owner.pid)


if __name__ == "__main__":
    unittest.main()
