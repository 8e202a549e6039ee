"""Tests which launcher a process gets by which name, and how long it keeps it."""

from __future__ import annotations

import sys
import unittest
from unittest import mock

from harness.errors import LaunchError
from harness.ranks.processes.choose_launcher import launcher, launchers
from harness.ranks.processes.fork_server import ForkServerLauncher
from harness.ranks.processes.spawn import SpawnLauncher
from harness.settings import LAUNCHERS
from harness.system.closing import close_all


class ChooseLauncherTest(unittest.TestCase):
    """``launcher``, in a process that keeps no server."""

    def setUp(self) -> None:
        close_all()
        self.addCleanup(close_all)

    def test_names(self) -> None:
        """Each name has its launcher, which is the fork server if nobody asked for one."""
        for name, kind in (
            (None, ForkServerLauncher),
            ("external", ForkServerLauncher),
            ("forkserver", ForkServerLauncher),
            ("spawn", SpawnLauncher),
        ):
            with self.subTest(name=name):
                self.assertIs(type(launcher(name)), kind)
        for name in LAUNCHERS:
            launcher(name)

    def test_one_of_each(self) -> None:
        """A process keeps one launcher for each name, and is asked only for those that it wants."""
        self.assertEqual(launchers(), {})
        fork, spawn = launcher("forkserver"), launcher("spawn")
        self.assertIs(launcher("forkserver"), fork)
        self.assertEqual(launchers(), {"forkserver": fork, "spawn": spawn})
        self.assertIs(launcher("external"), launcher(None))
        self.assertIsNot(launcher(None), fork)

    def test_closed(self) -> None:
        """After the end of all that the process keeps, a launcher is made anew."""
        first = launcher("spawn")
        with mock.patch.object(first, "close") as close:
            close_all()
        close.assert_called_once_with()
        self.assertEqual(launchers(), {})
        self.assertIsNot(launcher("spawn"), first)

    def test_other_platforms(self) -> None:
        """Without Linux there is no launcher, and the error says so."""
        with (
            mock.patch.object(sys, "platform", "darwin"),
            self.assertRaisesRegex(LaunchError, "need Linux .*; this is darwin"),
        ):
            launcher(None)


if __name__ == "__main__":
    unittest.main()
