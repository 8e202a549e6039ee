"""Tests whole drafts: of gloo, of the backend in Python, and mistakes on the command line."""

from __future__ import annotations

import importlib.util
import tempfile
import unittest
from collections.abc import Mapping, Set
from pathlib import Path

from harness.target_draft.tries import NOT_TRIED
from harness.targets import Target
from harness.targets.builtin import gloo
from harness.targets.target import RARE_INTEGERS
from suites.selftest.targets import plugins
from suites.targets import python_gloo

COMMAND = (str(plugins.TREE / "run_tests.py"), "target", "new")


class NewTest(unittest.TestCase):
    """``torch-harness target new``."""

    def setUp(self) -> None:
        """Makes a directory to write into."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def draft(self, name: str, *arguments: str) -> Target:
        """Returns the target of the module that the command writes."""
        done = plugins.run(self.directory, *COMMAND, name, *arguments, warm=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("refused", done.stderr)  # the draft has it, in fewer lines
        path = self.directory / f"{name}_target.py"
        spec = importlib.util.spec_from_file_location("draft", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        target = module.TARGET
        assert isinstance(target, Target)
        return target

    def check(self, drafted: Target, shipped: Target, surplus: Mapping[str, Set[str]]) -> None:
        """Compares a draft with the target that the project ships for the same backend.

        ``surplus`` are the dtypes by reduction that work and are not declared.
        """
        self.assertEqual(str(drafted), str(shipped))
        self.assertEqual(set(drafted.operations), set(shipped.operations))
        for name in shipped.operations:
            for reduction in (None, *shipped.operations[name].reductions):
                with self.subTest(name, reduction=reduction):
                    more = surplus.get(reduction or "", frozenset())
                    found = drafted.dtypes(name, reduction)
                    more = more if reduction else found & surplus.get("product", frozenset())
                    self.assertEqual(found, shipped.dtypes(name, reduction) | more)
        # What the compiler makes of a function takes too long for a try.
        self.assertEqual(drafted.capabilities, shipped.capabilities - NOT_TRIED)

    def test_gloo(self) -> None:
        """The draft of gloo is what the suites know of it, and ``--plugin`` takes it as it is."""
        self.check(self.draft("gloo"), gloo(), {})
        listed = plugins.run(
            self.directory,
            *(COMMAND[0], "--plugin", "gloo_target", "--list", "suites.c10d.test_barriers"),
            warm=True,
        )
        self.assertEqual(listed.returncode, 0, listed.stdout + listed.stderr)

    def test_python_backend(self) -> None:
        """The draft of a backend in Python is its target, and has some reductions that are not declared.

        torch multiplies unsigned whole numbers of more than 8 bits and combines their bits, but can neither
        add nor compare them, so the target leaves them out.
        """
        drafted = self.draft("python_gloo", "--import", python_gloo.__name__)
        unsigned = RARE_INTEGERS - {"int16"}
        surplus = dict.fromkeys(("product", "band", "bor", "bxor"), unsigned)
        self.check(drafted, python_gloo.TARGET, surplus)

    def test_mistakes(self) -> None:
        """A backend that is not there, or a file that is, ends it with one line and exit code 2."""
        (self.directory / "gloo_target.py").write_text("", encoding="utf-8")
        for arguments, said in (
            (("gloo",), "gloo_target.py exists"),
            (("nonesuch",), "no group of 2 ranks with the backend 'nonesuch'"),
            (("gloo2", "--import", "not-a-module"), "write it as in an import statement"),
            (("gloo2", "--import", "not_there"), "the plugin not_there does not import"),
        ):
            with self.subTest(arguments):
                done = plugins.run(self.directory, *COMMAND, *arguments, warm=True)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(said, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
