"""The command line of the drop-in: ``python -m harness.dropin FILE_OR_MODULE [unittest arguments]``."""

from __future__ import annotations

import sys

from harness.dropin import install, program
from harness.errors import UsageError
from harness.system import standard_output

# The exit code of unittest and argparse for wrong arguments.
USAGE = 2
# That of a command that SIGPIPE ends, by a shell.
NO_READER = 141

HELP = """usage: python -m harness.dropin FILE_OR_MODULE [unittest arguments]

Runs an unmodified upstream PyTorch test file on this harness's ranks."""


def main(arguments: list[str]) -> None:
    """Runs the file or module and ends by SystemExit: with unittest's exit code, or 2 for wrong usage.

    The exit code is 141 where nobody reads what ``--help`` prints (``| head``).
    """
    raise SystemExit(standard_output.while_read(lambda: _obey(arguments), NO_READER))


def _obey(arguments: list[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        if arguments[:1] in (["-h"], ["--help"]):
            standard_output.write_out(f"{HELP}\n")
            return 0
        print(HELP, file=sys.stderr)
        return USAGE
    try:
        program.run(arguments[0], arguments[1:], install)
        return 0
    except UsageError as error:
        print(f"harness.dropin: {error}", file=sys.stderr)
        return USAGE


if __name__ == "__main__":
    main(sys.argv[1:])
