"""Stack dumps of ranks: whether one is complete, and what of it a reader wants."""

from __future__ import annotations

# A whole dump fits a pipe many times over; what is longer has hundreds of threads.
STACK_BYTES = 256 * 1024

# Everything outside of these frames is the harness's and its caller's, the same for each rank.
_RANK_ENTRIES = ("harness/ranks/processes/rank.py",)
_BOTTOM = ("in <module>", "in _run_module_as_main", "in _run_code")
_CUT = "  ..."


def looks_complete(dump: bytes) -> bool:
    """True where the dump ends as the main thread's does (it comes last): at a module's or runpy's frame, or
    where faulthandler stops at its greatest depth."""
    if not dump.endswith(b"\n") or b"most recent call first" not in dump:
        return False
    last = dump.rstrip(b"\n").rsplit(b"\n", 1)[-1].decode(errors="replace")
    return last.endswith(_BOTTOM) or last == _CUT


def readable(dump: bytes) -> str:
    """The dump with each thread's frames down to the rank's entry, innermost first."""
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
    """Cuts the frames between the rank's entry and the test's method: unittest's and our own."""
    marks = ("/unittest/case.py", "harness/ranks/result.py", "harness/cases/")
    while len(lines) > 2 and any(mark in lines[-1] for mark in marks):
        lines = lines[:-1]
    return lines
