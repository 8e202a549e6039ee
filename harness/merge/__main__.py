"""``python -m harness.merge DIR... --report-dir OUT``: the same as ``torch-harness merge``."""

import sys

from harness.merge.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], "python -m harness.merge"))
