"""Decides what ``breakpoint()`` does in a rank: it opens a debugger, does nothing, or raises an error.

``HARNESS_PDB_RANK=N`` (``--pdb-rank N``) gives rank N the controlling terminal: ``breakpoint()`` opens a
debugger there, and so does an exception that fails its test. In other ranks it then does nothing. Without the
variable ``breakpoint()`` raises an error that names it, instead of waiting on a closed standard input.

``PYTHONBREAKPOINT`` is the user's: what it names is called in every rank, or in the one with the terminal.
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
    """Sets ``sys.breakpointhook`` for this rank; returns whether this rank is the one to debug."""
    debugged = debugged_rank(os.environ)
    own = bool(os.environ.get("PYTHONBREAKPOINT"))
    if own:  # the worker that the rank is a fork of may have set a hook
        sys.breakpointhook = sys.__breakpointhook__
    if debugged == rank and own:
        _use_terminal()
    elif debugged == rank:
        sys.breakpointhook = _open_debugger
    elif debugged is not None:
        sys.breakpointhook = _pass
    elif not own:
        sys.breakpointhook = _refusal(rank)
    return debugged == rank


def wanted_in(rank: int | None) -> bool:
    """Whether ``HARNESS_PDB_RANK`` names this rank."""
    return rank is not None and debugged_rank(os.environ) == rank


def _pass(*args: Any, **kwargs: Any) -> None:
    """Ignores ``breakpoint()`` in this rank, because another rank is being debugged."""


def _refusal(rank: int) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"breakpoint() in rank {rank}: ranks have no terminal. Set {EnvVar.PDB_RANK}={rank} "
            f"(--pdb-rank {rank}) to give it this one, with all deadlines off, or "
            "PYTHONBREAKPOINT for a debugger that needs no terminal"
        )

    return refuse


def _use_terminal() -> None:
    """Makes the terminal this rank's standard input and output, for the user's own debugger.

    Nothing changes where there is none: there are debuggers that need no terminal.
    """
    with contextlib.suppress(RuntimeError):
        sys.stdin = take_terminal()
        sys.stdout = open(TERMINAL, "w")  # noqa: SIM115 - the debugger uses it until the rank ends


def _open_debugger(*args: Any, **kwargs: Any) -> None:
    # The debugger starts in the caller's frame; the parent takes the terminal back when the rank ends.
    _debugger().set_trace(sys._getframe(1))


def post_mortem(trace: types.TracebackType | None) -> None:
    """Opens the debugger at the innermost frame of a traceback, without those that hide themselves.

    Such as pytest's of ``pytest.fail``: they have a variable ``__tracebackhide__``.
    """
    debugger = _debugger()
    debugger.reset()
    debugger.interaction(None, _to_the_last_shown(trace))


def _to_the_last_shown(trace: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback without the hidden frames at its end; all of it where every frame is hidden."""
    entries: list[types.TracebackType] = []
    each = trace
    while each is not None:
        entries.append(each)
        each = each.tb_next
    while entries and entries[-1].tb_frame.f_locals.get("__tracebackhide__", False):
        entries.pop()
    shown: types.TracebackType | None = None
    for entry in reversed(entries):
        shown = types.TracebackType(shown, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shown or trace


def _debugger() -> pdb.Pdb:
    terminal = take_terminal()
    return pdb.Pdb(stdin=terminal, stdout=open(TERMINAL, "w"))


def take_terminal() -> IO[str]:
    """Opens the controlling terminal and makes this rank's process group its foreground group.

    RuntimeError where this process has no controlling terminal, as under a CI system.
    """
    try:
        terminal = open(TERMINAL)  # noqa: SIM115 - the debugger uses it until the rank ends
    except OSError as error:
        raise RuntimeError(f"{EnvVar.PDB_RANK} needs a terminal, and there is none ({error})") from error
    with _ignoring_background_signal():
        os.tcsetpgrp(terminal.fileno(), os.getpgrp())
    return terminal


def give_back_terminal() -> None:
    """Gives the terminal back to the parent's process group, after the debugged rank has ended."""
    with contextlib.suppress(OSError), open(TERMINAL) as terminal, _ignoring_background_signal():
        os.tcsetpgrp(terminal.fileno(), os.getpgrp())


@contextlib.contextmanager
def _ignoring_background_signal() -> Iterator[None]:
    # The kernel stops a background process that changes the foreground group, unless it ignores SIGTTOU.
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTTOU, before)
