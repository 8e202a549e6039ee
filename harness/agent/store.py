"""The store of a host: a TCPStore in a process of its own, at which ranks of several hosts meet."""

from __future__ import annotations

import os
import signal
import socket
import traceback
from datetime import timedelta
from typing import NoReturn

from harness.hosts.connection import listen
from harness.system import posix

# Seconds for the store to be there; nobody else takes part in that.
_START_S = 30.0


def start(address: str) -> tuple[int, int]:
    """Forks the process of the store, which listens on that address only; returns its id and its port.

    It holds no thread of this process, and ends with it.
    """
    listener = listen(address)
    port: int = listener.getsockname()[1]
    agent, pid = os.getpid(), os.fork()
    if pid == 0:
        _serve(listener, address, port, agent)
    listener.close()
    return pid, port


def _serve(listener: socket.socket, address: str, port: int, agent: int) -> NoReturn:
    try:
        posix.die_with_parent(signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        if os.getppid() == agent:
            from torch.distributed import TCPStore

            store = TCPStore(
                address,
                port,
                is_master=True,
                wait_for_workers=False,
                timeout=timedelta(seconds=_START_S),
                master_listen_fd=listener.detach(),
            )
            while store is not None:
                signal.pause()
    except BaseException:  # noqa: BLE001 - must not reach the agent's frames
        traceback.print_exc()
    finally:
        os._exit(1)
