"""Tests the target of a process, and of runs by the runner, as a script, by unittest and by pytest."""

from __future__ import annotations

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness.errors import UsageError
from harness.settings import target_given
from harness.targets import builtin
from harness.targets.current import current
from suites.selftest.targets import plugins

#: One test that passes where the target and the backends that torch knows are the plugin's, in its ranks too.
SUITE = """
import torch.distributed as dist
from harness import MultiProcessTestCase, load_tests, run_tests
from harness.targets import current

class Seen(MultiProcessTestCase):
    world_size = 2

    def test_target(self):
        self.assertIn("MINE", dist.Backend._plugins)
        self.assertEqual(current().backend, "mine")

if __name__ == "__main__":
    run_tests()
"""
THREAD = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
# By its module, whether or not the package is installed, which would register it once more.
PYTEST = ("-m", "pytest", "-q", "-p", "no:torch_harness", "-p", "harness.pytest_plugin.plugin")
RUNNER = str(plugins.TREE / "run_tests.py")


class HereTest(unittest.TestCase):
    """``current``, in this process."""

    def test_default(self) -> None:
        """Without a word it is gloo on the CPU, whatever upstream's BACKEND says, and nothing is plugged."""
        with mock.patch.dict(os.environ, {"BACKEND": "nccl"}):
            for name in ("HARNESS_BACKEND", "HARNESS_DEVICE", "HARNESS_PLUGIN"):
                os.environ.pop(name, None)
            self.assertIs(current(), builtin.gloo())
            self.assertFalse(target_given(os.environ))

    def test_named(self) -> None:
        """A target that needs no plugin is found by its names, in any case of letters."""
        with mock.patch.dict(os.environ, {"HARNESS_BACKEND": "GLOO", "HARNESS_DEVICE": "cpu", "BACKEND": ""}):
            self.assertIs(current(), builtin.gloo())
            self.assertTrue(target_given(os.environ))

    def test_mistakes(self) -> None:
        """What cannot be tested is one line that says what to do."""
        for environ, said in (
            ({"HARNESS_BACKEND": "nonesuch"}, "the backend nonesuch is unknown: --plugin names the module"),
            ({"HARNESS_DEVICE": "cuda"}, "a backend on cuda is unknown: --plugin"),
            ({"HARNESS_PLUGIN": "json"}, ""),
            (
                {"HARNESS_PLUGIN": "json", "HARNESS_BACKEND": "mine"},
                "the plugin json has no TARGET, and the backend mine",
            ),
            ({"HARNESS_BACKEND": "gloo", "BACKEND": "nccl"}, "BACKEND='nccl' contradicts the target gloo"),
        ):
            cleared = {"HARNESS_BACKEND": "", "HARNESS_DEVICE": "", "HARNESS_PLUGIN": "", "BACKEND": ""}
            with self.subTest(environ=environ), mock.patch.dict(os.environ, {**cleared, **environ}):
                if not said:
                    self.assertIs(current(), builtin.gloo())  # a plugin that changes gloo, say
                    continue
                with self.assertRaisesRegex(UsageError, said) as caught:
                    current()
                self.assertEqual(len(str(caught.exception).splitlines()), 1)


class RunTest(unittest.TestCase):
    """The target of whole runs."""

    def setUp(self) -> None:
        """Makes a directory with a plugin and a test that sees it."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        plugins.write(self.directory, "test_seen", SUITE)
        plugins.write(self.directory, "mine", plugins.GOOD)

    def test_every_way_to_run(self) -> None:
        """The plugin is imported before any test runs, in forked ranks and in new interpreters."""
        environ = {"HARNESS_PLUGIN": "mine"}
        for arguments, more in (
            ((RUNNER, "--plugin", "mine", "test_seen.py"), {}),
            (("test_seen.py",), environ),
            (("-m", "unittest", "test_seen"), environ),
            (("-m", "unittest", "test_seen"), {**environ, "HARNESS_LAUNCHER": "spawn"}),
            ((*PYTEST, "--plugin", "mine", "test_seen.py"), {}),
        ):
            with self.subTest(arguments=arguments[1:]):
                done = plugins.run(self.directory, *arguments, environ=more, warm=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_from_a_file(self) -> None:
        """A configuration file names the plugin, also for a module that asks for it while it is imported."""
        Path(self.directory, "torch-harness.toml").write_text('plugin = "mine"\n', encoding="utf-8")
        at_import = 'assert current().backend == "mine"\n\nclass Seen'
        plugins.write(self.directory, "test_seen", SUITE.replace("class Seen", at_import))
        for arguments in ((RUNNER, "test_seen.py"), ("test_seen.py",), (*PYTEST, "test_seen.py")):
            with self.subTest(arguments=arguments):
                done = plugins.run(self.directory, *arguments, warm=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_mistakes_end_a_run_before_its_first_test(self) -> None:
        """Exit code 2 (pytest's is 4) and one line on standard error."""
        registered = next(line for line in plugins.GOOD.splitlines() if "register_backend" in line)
        plugins.write(self.directory, "unregistered", plugins.GOOD.replace(registered, ""))
        plugins.write(self.directory, "threads", plugins.GOOD + THREAD)
        for options, said in (
            (("--plugin", "nonesuch"), "the plugin nonesuch does not import"),
            (("--plugin", "mine", "--backend", "yours"), "the plugin mine has no target yours"),
            (("--plugin", "unregistered"), "does not register the backend 'mine'"),
            (("--plugin", "threads"), "the import of the plugin threads has started threads"),
            (("--backend", "a b"), "--backend: 'a b': write the name of one backend"),
            (("--backend", "nonesuch"), "nonesuch is unknown: --plugin"),
        ):
            with self.subTest(options=options):
                done = plugins.run(self.directory, RUNNER, *options, "test_seen.py", warm=True)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(said, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for arguments, code in (
            (("test_seen.py",), 2),
            (("-m", "unittest", "test_seen"), 2),
            ((*PYTEST, "test_seen.py"), 4),
        ):
            with self.subTest(arguments=arguments):
                environ = {"HARNESS_PLUGIN": "nonesuch"}
                done = plugins.run(self.directory, *arguments, environ=environ, warm=True)
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertIn("the plugin nonesuch does not import", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
