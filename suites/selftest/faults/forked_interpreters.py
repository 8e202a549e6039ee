"""``forked_interpreters``: ranks of the spawn launcher that are forks of one interpreter with its imports.

Such a rank is given what a new interpreter is given, and does with it what that does; but it takes a few
hundredths of a second, where that takes half of one, and two with torch. So it is for tests of what becomes
of ranks. How an interpreter starts, what it imports and what it inherits are for new ones. What imports have
registered for the end of the process is not called in a fork.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import socket
import traceback
from collections.abc import Iterator, Sequence
from unittest import mock

from harness.protocol import Assignment, encode
from harness.ranks.processes import choose_launcher, rank, server
from harness.system.server_process import Parent, start_interpreter

# What the launcher calls to start its server.
_STARTS = "harness.ranks.processes.spawn.start_interpreter"
# What a rank of any test imports.
_OF_ALL = ("unittest", "harness.cases.multiprocess")


@contextlib.contextmanager
def forked_interpreters(imports: Sequence[str] = ()) -> Iterator[None]:
    """Makes the spawn launcher of this process start such ranks, by a server of its own.

    It has imported what all ranks import, and ``imports``.
    """

    def start(module: str, function: str, sys_path: Sequence[str]) -> tuple[int, socket.socket]:
        return start_interpreter(__name__, serve.__name__, sys_path, arguments={"imports": [*imports]})

    _end_server()
    with mock.patch(_STARTS, start):
        try:
            yield
        finally:
            _end_server()


def _end_server() -> None:
    made = choose_launcher.launchers()
    if "spawn" in made:
        made["spawn"].close()


def serve(control: socket.socket, parent: Parent, imports: Sequence[str]) -> None:
    """The entry point of the server."""
    for name in (*_OF_ALL, *imports):
        importlib.import_module(name)
    server.main(control, fork_rank, preload=False, parent=parent)


def fork_rank(assignment: Assignment, close: Sequence[int]) -> int:
    """Forks a rank and returns its process id.

    No descriptor but those of its assignment stays open, as after an exec; so ``close`` has nothing to add.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setpgid(0, 0)
        stdin = os.memfd_create("harness-assignment")
        os.write(stdin, encode(assignment))
        os.lseek(stdin, 0, os.SEEK_SET)
        for source, number in ((stdin, 0), (assignment.output, 1), (assignment.output, 2)):
            os.dup2(source, number)
        _close_all_but({0, 1, 2, assignment.channel, assignment.stack, assignment.log})
        gc.enable()
        rank.from_exec()
    except SystemExit as left:  # of which an interpreter says nothing
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:  # noqa: BLE001 - must never reach the server's frames
        traceback.print_exc()
    finally:
        os._exit(code)


def _close_all_but(keep: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in keep:
            with contextlib.suppress(OSError):  # the listing's own descriptor is closed already
                os.close(int(name))
