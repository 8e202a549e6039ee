"""The terminal in a rank: for the one rank that is being debugged, and a clear refusal for the others.

``HARNESS_PDB_RANK=N`` (``--pdb-rank N``) gives rank N the controlling terminal: ``breakpoint()`` opens a
debugger there, and so does an exception that fails its test. Elsewhere ``breakpoint()`` says how to do that
instead of waiting on a closed standard input.
"""

from __future__ import annotations

import contextlib
import os
import pdb
import signal
import sys
import types
from collections.abc import Iterator
from typing import IO, Any, NoReturn

from harness.settings import EnvVar, debugged_rank

TERMINAL = "/dev/tty"


def install(rank: int) -> bool:
    """Makes ``breakpoint()`` do the right thing in this rank; True where this rank is the one to debug."""
    debugged = debugged_rank(os.environ)
    if debugged == rank:
        sys.breakpointhook = _open_debugger
    else:
        sys.breakpointhook = _refusal(rank) if debugged is None else _pass
    return debugged == rank


def wanted_in(rank: int | None) -> bool:
    """Whether this rank is the one to debug."""
    return rank is not None and debugged_rank(os.environ) == rank


def _pass(*args: Any, **kwargs: Any) -> None:
    """Another rank is being debugged: the same ``breakpoint()`` means nothing here."""


def _refusal(rank: int) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"breakpoint() in rank {rank}: ranks have no terminal. Set {EnvVar.PDB_RANK}={rank} "
            f"(run_tests.py --pdb-rank {rank}) to give it this one, with all deadlines off"
        )

    return refuse


def _open_debugger(*args: Any, **kwargs: Any) -> None:
    # Interactive from the caller's frame on; the terminal goes back when the rank ends.
    _debugger().set_trace(sys._getframe(1))


def post_mortem(trace: types.TracebackType | None) -> None:
    """Opens the debugger at the innermost frame of a traceback."""
    debugger = _debugger()
    debugger.reset()
    debugger.interaction(None, trace)


def _debugger() -> pdb.Pdb:
    terminal = take_terminal()
    return pdb.Pdb(stdin=terminal, stdout=open(TERMINAL, "w"))


def take_terminal() -> IO[str]:
    """Opens the controlling terminal and puts this rank's process group in its foreground.

    RuntimeError where this process has no terminal: under a CI system, or in a session of its own.
    """
    try:
        terminal = open(TERMINAL)  # noqa: SIM115 - the debugger's for as long as the rank lives
    except OSError as error:
        raise RuntimeError(f"{EnvVar.PDB_RANK} needs a terminal, and there is none ({error})") from error
    with _ignoring_background_signal():
        os.tcsetpgrp(terminal.fileno(), os.getpgrp())
    return terminal


def give_back_terminal() -> None:
    """In the parent, when the rank has ended: this process's group has the terminal again."""
    with contextlib.suppress(OSError), open(TERMINAL) as terminal, _ignoring_background_signal():
        os.tcsetpgrp(terminal.fileno(), os.getpgrp())


@contextlib.contextmanager
def _ignoring_background_signal() -> Iterator[None]:
    # A background process that changes the foreground group is stopped by SIGTTOU unless it ignores it.
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTTOU, before)
