"""``python -m harness.run -n 4 train.py``: the same as ``torch-harness run``."""

import sys

from harness.run.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], "python -m harness.run"))
