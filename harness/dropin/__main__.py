"""The command line of the drop-in: ``python -m harness.dropin FILE_OR_MODULE [unittest arguments]``."""

from __future__ import annotations

import sys

from harness.dropin import install, program
from harness.errors import UsageError

# The exit code of unittest and argparse for wrong arguments.
USAGE = 2

HELP = """usage: python -m harness.dropin FILE_OR_MODULE [unittest arguments]

Runs an unmodified upstream PyTorch test file on this harness's ranks."""


def main(arguments: list[str]) -> None:
    """Runs the file or module and ends by SystemExit: with unittest's exit code, or 2 for wrong usage."""
    if not arguments or arguments[0].startswith("-"):
        asked = arguments[:1] in (["-h"], ["--help"])
        print(HELP, file=sys.stdout if asked else sys.stderr)
        raise SystemExit(0 if asked else USAGE)
    try:
        program.run(arguments[0], arguments[1:], install)
    except UsageError as error:
        print(f"harness.dropin: {error}", file=sys.stderr)
        raise SystemExit(USAGE) from None


if __name__ == "__main__":
    main(sys.argv[1:])
