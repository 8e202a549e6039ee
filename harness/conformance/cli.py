"""``main``, the command ``torch-harness conformance``: compares the reports of two runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.conformance.differences import differences, text
from harness.conformance.document import load
from harness.errors import UsageError
from harness.system import standard_output

EPILOG = """\
exit codes:
  0    nothing is lost: all that worked works, as far as the newer run has run it
  1    something is lost: it fails, or is not there, not declared or skipped any more
  2    wrong command line, or a report could not be read
  141  nobody reads what is printed (| head)
"""
NOTHING_LOST, LOST, FAILED = 0, 1, 2


def main(words: Sequence[str], prog: str) -> int:
    """Does what ``words`` say and returns the exit code; ``prog`` is the command before them.

    BrokenPipeError where nobody reads what it prints.
    """
    options = _parser(prog).parse_args(words)
    try:
        old, new = load(options.old), load(options.new)
    except UsageError as error:
        print(f"{prog}: error: {error}", file=sys.stderr)
        return FAILED
    found = differences(old, new)
    standard_output.write_out(f"{text(found, old, new)}\n")
    return LOST if found.loses else NOTHING_LOST


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Compare two reports that run_tests.py --report conformance has written: files "
        "conformance.json, or directories of runs.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    diff = commands.add_parser(
        "diff",
        help="what the new run has gained and lost",
        description="Print what works in the new run and did not in the old one, and the reverse.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    diff.add_argument("old", metavar="OLD", type=Path, help="conformance.json, or a run's directory")
    diff.add_argument("new", metavar="NEW", type=Path, help="the same of a later run")
    return parser
