"""Reads ranks' stack dumps: whether a dump is complete, and which frames of it a report shows."""

from __future__ import annotations

# The most bytes of a dump that are kept; a longer one has hundreds of threads.
STACK_BYTES = 256 * 1024

# Frames older than those of these files belong to the harness and its caller: the same in each rank.
_RANK_ENTRIES = ("harness/ranks/processes/rank.py",)
_BOTTOM = ("in <module>", "in _run_module_as_main", "in _run_code")
_CUT = "  ..."


def looks_complete(dump: bytes) -> bool:
    """Whether the dump ends as the main thread's stack does: at a module's or runpy's frame.

    faulthandler writes the newest thread first, so the main thread's stack is the last
    (python/cpython#149085, python/cpython#149106). A stack of faulthandler's greatest depth ends in its own
    mark, which counts as complete.
    """
    if not dump.endswith(b"\n") or b"most recent call first" not in dump:
        return False
    last = dump.rstrip(b"\n").rsplit(b"\n", 1)[-1].decode(errors="replace")
    return last.endswith(_BOTTOM) or last == _CUT


def readable(dump: bytes) -> str:
    """The dump as text, with each thread's frames down to the rank's entry, innermost first."""
    text = dump[:STACK_BYTES].decode("utf-8", errors="replace")
    threads = ["\n".join(_own_part(block)) for block in _threads(text)]
    return "\n\n".join(t for t in threads if t)


def _threads(text: str) -> list[list[str]]:
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if "most recent call first" in line:
            blocks.append([line])
        elif line.strip() and blocks:
            blocks[-1].append(line)
    return blocks


def _own_part(block: list[str]) -> list[str]:
    for index, line in enumerate(block):
        if any(entry in line for entry in _RANK_ENTRIES):
            return _without_machinery(block[:index])
    return block


def _without_machinery(lines: list[str]) -> list[str]:
    """Removes the frames of unittest and the harness between the rank's entry and the test's method."""
    marks = ("/unittest/case.py", "harness/ranks/result.py", "harness/cases/")
    while len(lines) > 2 and any(mark in lines[-1] for mark in marks):
        lines = lines[:-1]
    return lines
