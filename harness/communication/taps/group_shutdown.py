"""A rank leaves a process group only when all members have come out of making it.

gloo connects each pair of ranks as soon as one of them can reach the other, so a rank may be connected to all
its peers while one of these still connects. Where a test then ends without a collective, that peer fails with
"Connection closed by peer". So each member notes in the group's store that it has come out, and whoever shuts
the group down, the test or the harness after it, first looks for the notes of all. It waits only where one is
missing.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from harness.communication.taps.tap_state import Taps
from harness.compiler_state import uncompiled

# How long the notes of others are awaited: far longer than gloo needs to connect on a busy machine, and far
# shorter than a deadline. A member that has failed in between never leaves a note, and its error says more.
MOST = timedelta(seconds=10)
# The beginning of the keys; a rank's number in the group follows.
CAME_OUT = "harness/came out/"


def noting(make: Callable[..., Any], taps: Taps) -> Callable[..., Any]:
    """The function by which torch makes a group; each rank that comes out notes that in the group's store."""

    @functools.wraps(make)
    def noted(*args: Any, **kwargs: Any) -> Any:
        group, store = made = make(*args, **kwargs)
        if taps.recorder is not None and _connects(group, store):
            with taps.unseen(), contextlib.suppress(RuntimeError):  # a store whose server is gone already
                store.set(f"{CAME_OUT}{group.rank()}", "")
        return made

    return uncompiled(noted)


def awaiting(shutdown: Callable[[Any], None], taps: Taps) -> Callable[[Any], None]:
    """``ProcessGroup.shutdown``, which goes before each end of a group, once all members have come out."""

    @functools.wraps(shutdown)
    def awaited(self: Any) -> None:
        if taps.recorder is not None:
            taps.recorder.ends_group(self)
            with taps.unseen(), contextlib.suppress(RuntimeError):  # no store any more, or no note in time
                _await_members(self)
        shutdown(self)

    return uncompiled(awaited)


def _await_members(group: Any) -> None:
    """Returns when all members have come out of making the group; RuntimeError after ``MOST``.

    At once for a group in whose making this rank noted nothing, or whose store has lost that since.
    """
    _, store = sys.modules["torch.distributed.distributed_c10d"]._world.pg_map.get(group, (None, None))
    if not _connects(group, store):
        return
    keys = [f"{CAME_OUT}{rank}" for rank in range(group.size())]
    if store.check([keys[group.rank()]]) and not store.check(keys):
        store.wait(keys, MOST)


def _connects(group: Any, store: Any) -> bool:
    """Whether it is a group of torch's with several members, who have a store of torch's in common.

    A ``FileStore`` whose file is gone is none any more: it would look for the file until its timeout.
    """
    distributed: Any = sys.modules["torch.distributed"]
    if type(group) is not distributed.ProcessGroup or group.size() == 1:
        return False
    while type(store) is distributed.PrefixStore:
        store = store.underlying_store
    if type(store) is distributed.FileStore:
        return os.path.exists(store.path)
    return type(store) in (distributed.HashStore, getattr(distributed, "TCPStore", None))
