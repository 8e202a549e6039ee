"""``python -m harness.look PID``: the same as ``torch-harness look``."""

import sys

from harness.look.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], "python -m harness.look"))
