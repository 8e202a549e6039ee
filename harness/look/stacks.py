"""Stacks of other processes by py-spy, which reads their memory and does not stop them (``of_process``).

Native frames alone need a stop: py-spy then holds every thread of the process for a moment.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.frames import Frame

# Seconds for one process. py-spy takes a tenth of one; more on a busy machine, or with symbols to read.
PATIENCE_S = 20.0
# A process that runs changes its stack while it is read: so often it is tried.
TRIES = 4
MAIN = "MainThread"
MISSING = "no stacks: py-spy is not installed (pip install py-spy)"
FORBIDDEN = (
    "no stacks: this user may not read the memory of process {pid}. Allow it (sysctl "
    "kernel.yama.ptrace_scope=0; in a container --cap-add=SYS_PTRACE), or look as root: "
    "torch-harness look PID"
)


@dataclass(frozen=True, slots=True)
class Stacks:
    """The frames of a process's threads by their names, innermost first; else ``why`` there are none."""

    threads: Mapping[str, tuple[Frame, ...]] = field(default_factory=dict)
    why: str = ""

    @property
    def main(self) -> tuple[Frame, ...]:
        """The frames of the main thread."""
        return self.threads.get(MAIN, ())


def program() -> str | None:
    """The path of py-spy, beside this interpreter or on PATH; None where it is not installed."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")


def of_process(pid: int, *, native: bool = False) -> Stacks:
    """The stacks of a process. ``native``: with the frames of C++, for which it is stopped a moment."""
    found = program()
    if found is None:
        return Stacks(why=MISSING)
    how = "--native" if native else "--nonblocking"
    for _ in range(TRIES):
        try:
            done = subprocess.run(
                [found, "dump", how, "--json", "--pid", str(pid)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Stacks(why=f"no stacks: py-spy has not read process {pid} after {PATIENCE_S:g} s")
        if done.returncode == 0:
            return parsed(done.stdout)
        if refusal(done.stderr, pid):
            break
    return Stacks(why=refusal(done.stderr, pid) or f"no stack: {_first_line(done.stderr)}")


def refusal(words: str, pid: int) -> str:
    """What to tell a user who may not read the process; "" where that is not what py-spy says."""
    said = words.lower()
    denied = "permission denied" in said or "not permitted" in said
    return FORBIDDEN.format(pid=pid) if denied else ""


def parsed(text: str) -> Stacks:
    """The stacks of py-spy's JSON."""
    try:
        threads = json.loads(text)
        return Stacks({_name(each, alone=len(threads) == 1): _frames(each) for each in threads})
    except (ValueError, KeyError, TypeError) as error:
        return Stacks(why=f"no stack: py-spy said what is no stack ({error})")


def _name(thread: Mapping[str, Any], *, alone: bool) -> str:
    """A thread's name; the main thread has one only where the program has imported ``threading``.

    Of a process of Python 3.10 that it does not stop, py-spy knows no thread's number in the system: then
    one that is ``alone`` is the main thread.
    """
    number = thread["os_thread_id"]
    if number == thread["pid"] or (number is None and alone):
        return MAIN
    return str(thread["thread_name"] or thread["thread_id"])


def _frames(thread: Mapping[str, Any]) -> tuple[Frame, ...]:
    frames: Sequence[Mapping[str, Any]] = thread["frames"]
    return tuple(Frame(str(f["filename"]), int(f["line"]), str(f["name"])) for f in frames)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "py-spy said nothing")
