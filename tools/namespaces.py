"""``Namespaces``: hosts for a trial on one machine: network namespaces that reach each other over a bridge.

Each has a network, an address and a host name of its own, and shares everything else with the machine. Making
them takes root, and the programs ``ip`` and ``nsenter``.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.errors import UsageError

# The first three parts of the addresses; the machine itself is number 1.
_NETWORK = "10.78.{0}"
# Of this host name ``$0``, in the namespace that it has entered, it runs the words that follow.
_AS_HOST = 'hostname "$0" && exec "$@"'


class Namespaces:
    """``count`` hosts; a context manager. ``addresses`` are theirs, ``machine`` is the machine's own."""

    def __init__(self, count: int) -> None:
        """UsageError where this machine cannot have them."""
        if os.geteuid() or not (shutil.which("ip") and shutil.which("nsenter")):
            raise UsageError("network namespaces take root, ip (iproute2) and nsenter (util-linux)")
        mark = os.getpid() % 250
        network = _NETWORK.format(mark)
        self.names = tuple(f"h{mark}x{number}" for number in range(count))
        self.machine = f"{network}.1"
        self.addresses = tuple(f"{network}.{number + 2}" for number in range(count))
        self._undo = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            bridge = f"hb{mark}"
            _ip(f"link add {bridge} type bridge")
            undo.callback(_ip, f"link del {bridge}")
            _ip(f"addr add {self.machine}/24 dev {bridge}")
            _ip(f"link set {bridge} up")
            for name, address in zip(self.names, self.addresses, strict=True):
                _ip(f"netns add {name}")
                undo.callback(_ip, f"netns del {name}")
                _ip(f"link add v{name} type veth peer name eth0 netns {name}")
                _ip(f"link set v{name} master {bridge} up")
                _ip(f"-n {name} addr add {address}/24 dev eth0")
                _ip(f"-n {name} link set eth0 up")
                _ip(f"-n {name} link set lo up")
            self._undo = undo.pop_all()

    def __enter__(self) -> Namespaces:
        return self

    def __exit__(self, *error: object) -> None:
        self._undo.close()

    def command(self, number: int, words: Sequence[str]) -> list[str]:
        """The command that runs ``words`` on a host."""
        name = self.names[number]
        return ["nsenter", f"--net={_file(name)}", "unshare", "--uts", "sh", "-c", _AS_HOST, name, *words]

    def processes(self, number: int) -> dict[int, str]:
        """The command lines of the processes that run on a host, by process id."""
        wanted = _file(self.names[number]).stat().st_ino
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if (path / "ns" / "net").stat().st_ino == wanted:
                    words = (path / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
                    found[int(path.name)] = shlex.join(os.fsdecode(word) for word in words)
        return found


def _file(name: str) -> Path:
    return Path("/run/netns", name)


def _ip(words: str) -> None:
    done = subprocess.run(["ip", *words.split()], capture_output=True, text=True)
    if done.returncode:
        raise UsageError(f"ip {words}: {done.stderr.strip()}")
