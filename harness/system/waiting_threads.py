"""Threads of other libraries that do not hinder a fork: they wait in a call of the system, and hold no lock.

Nothing that a fork of this process does needs such a thread, or anything that it has. It is known by where it
stands, not by its name: it is one of these only while it waits there.
"""

from __future__ import annotations

import socket
import sys
import threading
from types import FrameType

# The functions of threads that wait for a connection for as long as they live, by module and name. That of
# pytest-rerunfailures runs where pytest-xdist is installed, whose workers ask it how often a test has failed;
# without workers nobody connects.
_SERVERS = frozenset({("pytest_rerunfailures", "run_server")})


def count() -> int:
    """How many threads of this process, other than the calling one, wait so."""
    others = (frame for ident, frame in sys._current_frames().items() if ident != threading.get_ident())
    return sum(map(_waits, others))


def _waits(frame: FrameType) -> bool:
    """Whether a thread that stands in this frame waits for a connection, called by one of ``_SERVERS``."""
    caller = frame.f_back
    return (
        frame.f_code is socket.socket.accept.__code__
        and caller is not None
        and (caller.f_globals.get("__name__"), caller.f_code.co_name) in _SERVERS
    )
