"""Tests what a control group says of its limits and of what the kernel killed in it, in both versions."""

from __future__ import annotations

import signal
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness.system import control_group
from harness.system.control_group import MemoryKills


class ControlGroupTest(unittest.TestCase):
    """Groups whose files a test writes."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.mount = Path(directory.name, "cgroup")
        self.mount.mkdir()
        self.membership = Path(directory.name, "membership")
        self.machine = Path(directory.name, "vmstat")
        patched = mock.patch.multiple(
            control_group, MOUNT=self.mount, MEMBERSHIP=self.membership, MACHINE=self.machine
        )
        patched.start()
        self.addCleanup(patched.stop)

    def member(self, *lines: str) -> None:
        """Writes of which groups this process is a member."""
        self.membership.write_text("".join(f"{line}\n" for line in lines))

    def write(self, name: str, text: str) -> None:
        """Writes a file of a group."""
        file = self.mount / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def test_version_2(self) -> None:
        """The smallest limit of the group and of those above it holds."""
        self.member("0::/outer/inner")
        self.write("outer/memory.max", "1000\n")
        self.write("outer/inner/memory.max", "max\n")
        self.assertEqual(control_group.memory_limit(), 1000)
        self.write("outer/inner/memory.max", "10\n")
        self.assertEqual(control_group.memory_limit(), 10)

    def test_version_1(self) -> None:
        """Each controller has groups of its own, and a huge limit is none."""
        self.member("9:name=systemd:/", "8:cpu,pids:/few", "4:memory:/small", "0::/")
        self.write("memory/memory.limit_in_bytes", f"{(1 << 63) - 4096}\n")
        self.write("memory/small/memory.limit_in_bytes", "2000\n")
        self.write("pids/few/pids.max", "100\n")
        self.write("pids/few/pids.current", "90\n")
        self.assertEqual(control_group.memory_limit(), 2000)
        self.assertEqual(control_group.processes_left(), 10)
        self.write("pids/few/pids.current", "120\n")
        self.assertEqual(control_group.processes_left(), 0)

    def test_path_of_the_host(self) -> None:
        """In a container that does not have the group's path, the group is at the top."""
        self.member("0::/docker/0123")
        self.write("memory.max", "3000\n")
        self.assertEqual(control_group.memory_limit(), 3000)

    def test_no_groups(self) -> None:
        """Without groups there is no limit, and the machine's count of kills is taken."""
        self.assertIsNone(control_group.memory_limit())
        self.assertIsNone(control_group.processes_left())
        self.assertIsNone(MemoryKills.until_now().count)
        self.machine.write_text("pgfault 7\noom_kill 3\n")
        self.assertEqual(MemoryKills.until_now().count, 3)

    def test_kills(self) -> None:
        """Only an end by SIGKILL is explained, and only by what was killed since."""
        for version, lines, file in (
            (2, ["0::/group"], "group/memory.events"),
            (1, ["4:memory:/group", "0::/"], "memory/group/memory.oom_control"),
        ):
            with self.subTest(version=version):
                control_group._counter.cache_clear()
                self.member(*lines)
                self.write(file, "low 0\noom 9\noom_kill 1\n")
                before = MemoryKills.until_now()
                self.assertEqual(before.explain(-signal.SIGKILL), "")
                self.write(file, "low 0\noom 9\noom_kill 2\n")
                for code in (None, 0, 1, -signal.SIGSEGV):
                    self.assertEqual(before.explain(code), "")
                said = "meanwhile the kernel killed 1 process for lack of memory"
                self.assertEqual(before.explain(-signal.SIGKILL), said)
                self.write(str(Path(file).with_name("memory.max")), f"{5 << 20}\n")
                self.write(file, "oom_kill 3\n")
                self.assertEqual(
                    before.explain(-signal.SIGKILL),
                    "meanwhile the kernel killed 2 processes for lack of memory; the limit of its control "
                    "group is 5 MiB",
                )


if __name__ == "__main__":
    unittest.main()
