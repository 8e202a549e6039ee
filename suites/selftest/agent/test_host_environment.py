"""Tests what of a launch is different on each host."""

from __future__ import annotations

import os
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

from harness.agent.host_environment import Scratch, interface_of, on_this_host, variables
from harness.errors import LaunchError
from harness.protocol import Launch, ModuleRef
from harness.ranks.hosts.relay import TOKEN_FILE

HOSTS = ("a", "b")
PARENTS = {"HOME": "/home", "HARNESS_HOSTS": "[]", "HARNESS_KEY_FILE": "/key", "TMPDIR": "/theirs"}


class VariablesTest(unittest.TestCase):
    """``variables`` and ``interface_of``."""

    def test_interface(self) -> None:
        """The interface of an address that this host has; none for another address."""
        self.assertEqual(interface_of("127.0.0.1"), "lo")
        self.assertEqual(interface_of("127.0.0.12"), "lo")
        self.assertIsNone(interface_of("192.0.2.1"))  # an address of documentation

    def test_one_host(self) -> None:
        """Ranks of one host get the parent's variables, without the run's machinery, and their host's own."""
        environ = variables(PARENTS, {"TMPDIR": "/ours", "HOME": "/root"}, "127.0.0.1", "", "not shared")
        self.assertEqual(environ, {"HOME": "/home", "TMPDIR": "/ours"})

    def test_several_hosts(self) -> None:
        """Ranks of several hosts learn where they meet, by which interface, and why not at a file."""
        environ = variables(PARENTS, {}, "127.0.0.1", "127.0.0.1:5", "not shared")
        self.assertEqual(environ["HARNESS_STORE"], "127.0.0.1:5")
        self.assertEqual(environ["HARNESS_HOST_ADDR"], "127.0.0.1")
        self.assertEqual(environ["HARNESS_NO_SHARED_FILE"], "not shared")
        self.assertEqual(environ["GLOO_SOCKET_IFNAME"], "lo")
        self.assertEqual(environ["TMPDIR"], "/theirs")
        chosen = variables(PARENTS, {"GLOO_SOCKET_IFNAME": "eth7"}, "127.0.0.1", "127.0.0.1:5", "")
        self.assertEqual(chosen["GLOO_SOCKET_IFNAME"], "eth7")
        self.assertNotIn("HARNESS_NO_SHARED_FILE", chosen)


class ScratchTest(unittest.TestCase):
    """The parent's scratch directory on this host."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.there = os.path.join(directory.name, "there")
        os.mkdir(self.there)
        Path(self.there, TOKEN_FILE).write_text("token")
        self.absent = os.path.join(directory.name, "absent")
        self.request = Launch(ModuleRef("m"), "C", "t", 2, "", {}, "/", [], [], scratch=self.there)

    def here(self, scratch: Scratch, request: Launch) -> Launch:
        """The request as this host's server gets it, of a launch over two hosts."""
        return on_this_host(request, scratch, "token", "127.0.0.1", HOSTS, "127.0.0.1:5")

    def test_shared(self) -> None:
        """A directory that holds the parent's token is shared, and is not this host's to remove."""
        request = self.here(Scratch(), self.request)
        self.assertNotIn("HARNESS_NO_SHARED_FILE", request.environ)
        self.assertIsNone(request.scratch)

    def test_not_there(self) -> None:
        """A directory that is not there is made, for ranks of this host alone, and removed by its server."""
        scratch = Scratch()
        for _ in range(2):
            request = self.here(scratch, replace(self.request, scratch=self.absent))
            self.assertEqual(request.scratch, self.absent)
            self.assertTrue(os.path.isdir(self.absent))
            self.assertIn("not shared by the hosts a, b", request.environ["HARNESS_NO_SHARED_FILE"])
            self.assertIn("set TMPDIR", request.environ["HARNESS_NO_SHARED_FILE"])

    def test_another(self) -> None:
        """A directory of the same name with another token, or none, is another one."""
        for text in ("other", None):
            Path(self.there, TOKEN_FILE).unlink()
            if text is not None:
                Path(self.there, TOKEN_FILE).write_text(text)
            with self.subTest(text):
                self.assertIn("HARNESS_NO_SHARED_FILE", self.here(Scratch(), self.request).environ)

    def test_directories_of_values_and_cells(self) -> None:
        """What ranks write for their parent has to be in a directory that this host has, and shares."""
        path = f"{self.absent}/of/the/test"
        for request in (replace(self.request, values=path), replace(self.request, cells=path)):
            with self.subTest(request), self.assertRaisesRegex(LaunchError, "on every host"):
                self.here(Scratch(), request)
        request = replace(self.request, scratch=self.absent, values=f"{self.absent}/values")
        os.mkdir(self.absent)
        with self.assertRaisesRegex(LaunchError, "HARNESS_COMM_CHECK=values"):
            self.here(Scratch(), request)


if __name__ == "__main__":
    unittest.main()
