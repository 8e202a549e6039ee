"""Tests the launcher over hosts: errors for hosts that are not there, and for a key that is not set."""

from __future__ import annotations

import os
import sys
import tempfile
import unittest
from unittest import mock

from harness import environment
from harness.errors import LaunchError
from harness.hosts import key
from harness.hosts.hosts import Host, to_text
from harness.protocol import Launch, ModuleRef
from harness.ranks.hosts.launcher import HostsLauncher
from harness.ranks.modes import launcher_of

REQUEST = Launch(ModuleRef("m"), "C", "t", 2, "", {}, "/", sys.path, [])
# Nobody listens on these ports.
GONE = to_text([Host("a", "127.0.0.1", 1, 2, 2), Host("b", "127.0.0.2", 1, 2, 2)])


class LauncherTest(unittest.TestCase):
    """``HostsLauncher`` without hosts."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "key")
        key.make_file(path)
        patch = mock.patch.dict(os.environ, {"HARNESS_HOSTS": GONE, "HARNESS_KEY_FILE": path})
        patch.start()
        self.addCleanup(patch.stop)
        self.launcher = HostsLauncher()
        self.addCleanup(self.launcher.close)

    def test_no_host(self) -> None:
        """Where no host can be reached, each launch is an error that names all of them; the relay goes on."""
        for _ in range(2):
            with self.assertRaisesRegex(
                LaunchError, "no host is left; host a was lost: .*; host b was lost: "
            ):
                self.launcher.launch(REQUEST)

    def test_no_key(self) -> None:
        """Without a key file the error says how to start tests."""
        os.environ["HARNESS_KEY_FILE"] = ""
        with self.assertRaisesRegex(LaunchError, "HARNESS_KEY_FILE.*--hosts"):
            self.launcher.launch(REQUEST)

    def test_chosen_by_the_variable(self) -> None:
        """Where hosts are set, they have the ranks."""
        self.assertEqual(launcher_of(environment.settings()).name, "hosts")


if __name__ == "__main__":
    unittest.main()
