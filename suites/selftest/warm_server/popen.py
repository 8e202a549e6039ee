"""What ``subprocess.Popen`` is asked for, and what takes the place of the interpreter that it would start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from .start_variables import starts_alike


def original_execution() -> Callable[..., None]:
    """What starts a new interpreter in any case, also in a fork of a command whose children are forks."""
    now = subprocess.Popen._execute_child  # type: ignore[attr-defined]  # what all its ways call
    found: Callable[..., None] = vars(now).get("exec", now)
    return found


def words_of(asked: Mapping[str, Any], started: Mapping[str, str]) -> list[str] | None:
    """The arguments of an interpreter behind its options, where a fork of one that was ``started`` with such
    variables is the same; else None.
    """
    words = asked["args"]
    if isinstance(words, str) or asked["shell"] or [*words][:1] != [sys.executable]:
        return None
    plain = ("preexec_fn", "gid", "gids", "uid")
    if any(asked[name] is not None for name in plain) or asked["umask"] >= 0:
        return None
    options = [*subprocess._args_from_interpreter_flags(), "-u"]  # type: ignore[attr-defined]
    rest = [os.fsdecode(each) for each in words][1:]
    while rest and rest[0] in options:
        del rest[0]
    if not starts_alike(os.environ if asked["env"] is None else asked["env"], started):
        return None
    if not rest or not (rest[0] in ("-c", "-m") or rest[0].endswith(".py")):
        return None
    return rest


def is_started(popen: Any, pid: int, asked: Mapping[str, Any]) -> None:
    """Makes a fork the process of a ``Popen``, and closes this process's copies of its streams' ends."""
    popen.pid, popen._child_created = pid, True
    ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
    popen._close_pipe_fds(*(asked[name] for name in ends))
