"""``main``, the entry point of ``run_tests.py``: turns every error into one line of text and an exit code.

The options are in ``options``; the steps of a run are in ``command``.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.errors import HarnessError, UsageError, of_the_platform
from harness.runner.command_line.options import parse, program
from harness.runner.exit_codes import ExitCode
from harness.system import standard_output

if TYPE_CHECKING:
    from harness.runner.workers.zygote_interpreter import EarlyInterpreter

# The first words of command lines that are not for tests, and the modules that have their functions main: a
# script on ranks, a change of imports, a comparison of conformance reports, one run of many shards, the draft
# of a target, a look at ranks that run.
COMMANDS = {
    "run": lambda: importlib.import_module("harness.run.cli"),
    "migrate": lambda: importlib.import_module("harness.migrate.cli"),
    "conformance": lambda: importlib.import_module("harness.conformance.cli"),
    "merge": lambda: importlib.import_module("harness.merge.cli"),
    "target": lambda: importlib.import_module("harness.target_draft.cli"),
    "look": lambda: importlib.import_module("harness.look.cli"),
}

_KEPT = "what had finished is in the run's journal"
# What to do where the system has refused something.
_LIMITS = {
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "the whole system has too many open files",
    errno.EAGAIN: "raise the limit of processes (ulimit -u)",
    errno.ENOMEM: "the machine has no memory left",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the runner with ``argv``, the process's arguments by default; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    standard_output.open_streams()
    try:
        return standard_output.while_read(lambda: _obey(words), ExitCode.NO_READER)
    except UsageError as error:
        return _fail(f"error: {error}", ExitCode.USAGE)
    except HarnessError as error:
        return _fail(f"the harness failed: {error}", ExitCode.BROKEN)
    except KeyboardInterrupt:
        return _fail("interrupted before the first test", ExitCode.INTERRUPTED)
    except OSError as error:
        return _unhandled(_LIMITS.get(error.errno or 0))
    except Exception:  # noqa: BLE001 - any other exception is a bug of the harness, which has an exit code
        return _unhandled(None)


def _obey(words: Sequence[str]) -> int:
    """Does what the words say. BrokenPipeError where nobody reads what they ask for.

    A run of tests needs no reader: its exit code is its verdict.
    """
    if words and words[0] in COMMANDS:
        return _command(words[0], words[1:])
    options = parse(words)
    if options.hosts is None and not (options.list or options.show_config):
        with of_the_platform():
            from harness.runner.workers.zygote_interpreter import EarlyInterpreter

        with EarlyInterpreter() as early:
            return _execute(options, words, early)
    return _execute(options, words, None)


def _execute(options: argparse.Namespace, words: Sequence[str], early: EarlyInterpreter | None) -> int:
    """Does what the parsed options say, on the hosts that they name."""
    with of_the_platform():
        from harness.runner.command import execute  # imported late: --help and usage errors do not need it

    if options.hosts is not None:
        from harness.runner.over_hosts import over_hosts

        return over_hosts(options.hosts, lambda: execute(options, words))
    return execute(options, words, early)


def _command(name: str, words: Sequence[str]) -> int:
    """Runs one of ``COMMANDS`` in place of tests."""
    program = os.path.basename(sys.argv[0])
    prog = f"python {program} {name}" if program.endswith(".py") else f"torch-harness {name}"
    return int(COMMANDS[name]().main(words, prog))


def _unhandled(remedy: str | None) -> int:
    """Reports the exception that is being handled: in one line if there is a remedy, else with its stack."""
    if remedy is not None:
        return _fail(f"the harness failed: {sys.exc_info()[1]}: {remedy}; {_KEPT}", ExitCode.BROKEN)
    import traceback

    traceback.print_exc()
    return _fail(f"the harness itself failed; {_KEPT}", ExitCode.BROKEN)


def _fail(text: str, code: ExitCode) -> int:
    with contextlib.suppress(OSError):  # standard error may be closed; the exit code is enough
        print(f"{program()}: {text}", file=sys.stderr, flush=True)
    return int(code)
