"""``main``, the command ``torch-harness look``: prints where the ranks below a process are, and goes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from harness.errors import UsageError
from harness.look.report import taken
from harness.system import standard_output

# Exit codes, the same as those of runs.
OK, USAGE = 0, 2
EPILOG = """\
It reads the ranks' call logs, and their memory by py-spy where that is installed and allowed. Nothing of the
run is signalled, stopped or asked, so that it goes on as if nobody had looked. --native does stop each
process for a moment, and a system call such as epoll_wait may end early by that.

A run of run_tests.py or torch-harness run says the same at SIGUSR1, and knows its tests by their names.

exit codes:
  0  it was printed
  2  wrong command line, or there is no such process"""


def main(words: Sequence[str], prog: str) -> int:
    """Does what ``words`` say and returns the exit code; ``prog`` is the command before them."""
    options = _parser(prog).parse_args(words)
    try:
        lines = taken(options.pid, native=options.native)
    except UsageError as error:
        print(f"{prog}: error: {error}", file=sys.stderr)
        return USAGE
    standard_output.write_out("".join(f"{line}\n" for line in lines))
    return OK


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Prints where the ranks below a process are: unittest, pytest, a module or a runner.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("pid", metavar="PID", type=int, help="the process")
    parser.add_argument(
        "--native", action="store_true", help="frames of C and C++ too; stops each process for a moment"
    )
    return parser
