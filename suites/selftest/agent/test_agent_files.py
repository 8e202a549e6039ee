"""Tests over two hosts that share their directory for temporary files, and over two that do not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest

from suites.selftest.forked_case import ForkedCase
from suites.selftest.hosts.loopback import TREE, Loopback

_CASES = "suites.selftest.faults.hosts"
# Runs a command where ``$0`` is an empty directory of its own.
_ELSEWHERE = 'mount -t tmpfs tmpfs "$0" && exec "$@"'


def _can_mount() -> bool:
    """Whether this machine lets this user make a mount namespace."""
    try:
        words = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", tempfile.gettempdir()]
        return subprocess.run(words, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


class FilesTest(ForkedCase):
    """Tests of faulty cases that are run by unittest over hosts, with a TMPDIR of their own."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.tmpdir = directory.name

    def run_over(self, hosts: Loopback, test: str) -> subprocess.CompletedProcess[str]:
        """Runs a test with a rank on each host."""
        own = {"HARNESS_PLACEMENT": "spread", "HARNESS_GRACE": "0.3", "TMPDIR": self.tmpdir}
        return subprocess.run(
            [sys.executable, "-m", "unittest", f"{_CASES}.{test}"],
            cwd=TREE,
            env={**os.environ, **hosts.environ, **own},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def test_shared(self) -> None:
        """Where hosts share the directory, ranks meet at a file in it."""
        with Loopback() as hosts:
            done = self.run_over(hosts, "MeetsAtAFile.test_file")
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(_can_mount(), "needs a mount namespace, which takes root")
    def test_not_shared(self) -> None:
        """Where they do not, such a test is an error that says what to set; others meet all the same."""
        with Loopback(within={1: ["unshare", "-m", "sh", "-c", _ELSEWHERE, self.tmpdir]}) as hosts:
            insists = self.run_over(hosts, "MeetsAtAFile.test_file")
            meets = self.run_over(hosts, "Meets.test_sum")
        self.assertEqual(insists.returncode, 1)
        self.assertRegex(
            insists.stderr, "is not shared by the hosts h0, h1: set TMPDIR to a directory that is"
        )
        self.assertEqual(meets.returncode, 0, meets.stderr)


if __name__ == "__main__":
    unittest.main()
