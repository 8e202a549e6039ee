"""``SshServers``: an sshd on each namespace of a trial, and an ``ssh`` that reaches them."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from harness.errors import UsageError
from tools.namespaces import Namespaces

# Seconds for a server to start.
_START_S = 30.0
_SERVER = """\
ListenAddress {address}
HostKey {folder}/key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
"""
_CLIENT = """\
#!/bin/sh
exec {ssh} -F {folder}/config "$@"
"""
_CONFIG = """\
IdentityFile {folder}/key
UserKnownHostsFile /dev/null
StrictHostKeyChecking no
LogLevel ERROR
"""


class SshServers:
    """A context manager. ``folder`` has the ``ssh`` to be put first on the PATH."""

    def __init__(self, namespaces: Namespaces) -> None:
        """UsageError where OpenSSH is missing."""
        programs = {name: shutil.which(name) for name in ("sshd", "ssh", "ssh-keygen")}
        if not all(programs.values()):
            raise UsageError("ssh takes OpenSSH's client and server")
        self._undo = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            self.folder = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="trial-ssh-")))
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd refuses to start without it
            subprocess.run(
                [str(programs["ssh-keygen"]), "-q", "-t", "ed25519", "-N", "", "-f", self.folder / "key"],
                check=True,
            )
            (self.folder / "ssh").write_text(_CLIENT.format(ssh=programs["ssh"], folder=self.folder))
            (self.folder / "config").write_text(_CONFIG.format(folder=self.folder))
            (self.folder / "ssh").chmod(0o700)
            for number, address in enumerate(namespaces.addresses):
                settings = self.folder / f"sshd{number}"
                settings.write_text(_SERVER.format(address=address, folder=self.folder))
                words = [str(programs["sshd"]), "-D", "-f", str(settings)]
                server = subprocess.Popen(namespaces.command(number, words))
                undo.callback(server.wait)
                undo.callback(server.terminate)
            for address in namespaces.addresses:
                _await(address)
            self._undo = undo.pop_all()

    def __enter__(self) -> SshServers:
        return self

    def __exit__(self, *error: object) -> None:
        self._undo.close()


def _await(address: str) -> None:
    """Returns when the server takes connections; UsageError where it does not come."""
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection((address, 22), _START_S):
            return
        time.sleep(0.1)
    raise UsageError(f"no sshd at {address} within {_START_S:g} s")
