"""Where the ranks of a test meet: at a file on one host, at a store of one of several hosts.

A process group that the harness makes for a test takes its store from here, so the test does not notice. A
test that insists on a file gets it where the hosts share its directory, and a clear error where they do not.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from harness.errors import LaunchError
from harness.hosts.addresses import address_and_port
from harness.settings import EnvVar

if TYPE_CHECKING:
    from torch.distributed import Store

LOOPBACK = "127.0.0.1"


def over_hosts() -> bool:
    """Whether the ranks of this rank's test are on several hosts."""
    return bool(os.environ.get(EnvVar.STORE))


def store(file_name: str, world_size: int) -> Store:
    """The store of the ranks that call this with the same file: on that file, or over the network."""
    from torch.distributed import FileStore, PrefixStore, TCPStore

    where = os.environ.get(EnvVar.STORE)
    if not where:
        return FileStore(file_name, world_size)
    host, port = address_and_port(where)
    return PrefixStore(file_name, TCPStore(host, port, is_master=False, wait_for_workers=False))


def master_addr() -> str:
    """The address of rank 0's host, at which all ranks of this rank's test reach what rank 0 serves."""
    where = os.environ.get(EnvVar.STORE)
    return address_and_port(where)[0] if where else LOOPBACK


def host_addr() -> str:
    """The address of this rank's host, at which the other ranks of its test reach it."""
    return os.environ.get(EnvVar.HOST_ADDR) or LOOPBACK


def shared_file(file_name: str) -> str:
    """The file, for a test that meets there itself; LaunchError where hosts do not share its directory."""
    why = os.environ.get(EnvVar.NO_SHARED_FILE)
    if why and over_hosts():
        raise LaunchError(f"this test's ranks are on several hosts and meet at a file: {why}")
    return file_name
