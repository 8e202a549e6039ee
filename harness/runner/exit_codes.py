"""The exit codes of ``run_tests.py`` and of a test module run as a script, and which one a run gets."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """The exit codes: pytest's numbers, where pytest has one; else the shell's for SIGINT and SIGPIPE."""

    OK = 0
    FAILED = 1
    USAGE = 2
    BROKEN = 3
    NOTHING_RAN = 5
    INTERRUPTED = 130
    NO_READER = 141


MEANINGS = {
    ExitCode.OK: "every selected test passed, was skipped or failed as expected (or is another shard's, "
    "or no change affects it)",
    ExitCode.FAILED: "a test failed (or was flaky, with --flaky=fail; with --list: a module does not import)",
    ExitCode.USAGE: "wrong arguments, environment variables or files; nothing was run",
    ExitCode.BROKEN: "the harness itself failed, could not write its journal or a report, or lost a test",
    ExitCode.NOTHING_RAN: "nothing ran, and no report is written: no test is there or matched, "
    "or --last-failed found none",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C or SIGTERM; --resume goes on from there",
    ExitCode.NO_READER: "nobody reads what --list, --help or another command prints (| head); never a run's",
}


def decide(
    *, ran: int, failed: int, flaky: int, flaky_fails: bool, interrupted: bool, broken: bool
) -> ExitCode:
    """The exit code of a finished run; where several apply, the one that matters most to a script.

    A failed test comes before a report that could not be written, for which a message has been printed.
    ``broken`` is also true of a run that did not run all its tests and has no reason for it.
    """
    if interrupted:
        return ExitCode.INTERRUPTED
    if failed or (flaky and flaky_fails):
        return ExitCode.FAILED
    if broken:
        return ExitCode.BROKEN
    return ExitCode.OK if ran else ExitCode.NOTHING_RAN
